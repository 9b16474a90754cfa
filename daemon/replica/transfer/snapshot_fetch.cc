// SnapshotFetch: the receiving end for a snapshot, its blocks from several donors at once.
//
// Blocks are asked for by number and checked against the leaves, so it does not matter who sends
// which. One snapshot is fetched at a time: the first that a donor describes and the owner confirms
// is the one of which all others are asked for blocks.
#include <algorithm>
#include <deque>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "atoll/v1/replica.pb.h"
#include "compression/base/status_macros.h"
#include "daemon/replica/transfer/download.h"
#include "daemon/replica/transfer/fetch_schedule.h"
#include "daemon/replica/transfer/fetch_streams.h"
#include "daemon/replica/transfer/transfer.h"
#include "membership/history/header.h"

namespace atolld {
namespace {

// Requests on their way to a donor: hides the round trip on long links (4 MiB in flight), bounds
// what it reads in vain.
constexpr size_t kRequestsAhead = 4;

// Blocks of 1 MiB that may be here before their turn: what a slow donor may hold up.
constexpr uint64_t kWindowBlocks = 32;

}  // namespace

struct SnapshotFetch::State : std::enable_shared_from_this<SnapshotFetch::State> {
  State(Env env_in, FetchSource source_in, const std::string& dir, v1::Genesis genesis,
        std::vector<uint64_t> wanted_in, Events events_in)
      : env(env_in),
        source(std::move(source_in)),
        events(std::move(events_in)),
        wanted(wanted_in.begin(), wanted_in.end()),
        download(std::make_shared<Download>(env.files, dir, std::move(genesis))),
        queue(std::make_unique<SerialQueue>(env.executor)) {}

  using Judge = FetchStreams::Judge;

  void Begin();
  void Look();
  void Dial();
  Frame Greeting() const;
  Frame Request(uint64_t block) const;
  void TakeInfo(Frame frame, Judge judge);
  void Confirmed(const v1::SnapshotInfo& info, const absl::Status& verdict, const Judge& judge);
  void StartBlocks(const Judge& judge);
  void TakeBlock(uint64_t block, const Frame& frame, Judge judge);
  void Append();
  void Complete();
  void Exhausted(const absl::Status& status);
  void Report();
  void Finish(absl::StatusOr<FetchedSnapshot> result);
  void Stop();

  // Runs `work` on the pool, then `then` with its status, unless the fetch is over.
  void OnPool(std::function<absl::Status(Download&)> work, std::function<void(absl::Status)> then) {
    auto status = std::make_shared<absl::Status>();
    queue->Run([file = download, work = std::move(work), status] { *status = work(*file); },
               [weak = weak_from_this(), then = std::move(then), status] {
                 const auto self = weak.lock();
                 if (self != nullptr && !self->over) then(*status);
               });
  }

  const Env env;
  FetchSource source;
  Events events;
  std::deque<uint64_t> wanted;  // the version that is looked for is the first; none: the newest
  const std::shared_ptr<Download> download;  // the queue's

  bool over = false;
  bool taking_info = false;
  bool appending = false;
  bool completing = false;
  // The one that is fetched: confirmed. The loop's own copy of what the download was begun with.
  std::optional<v1::SnapshotInfo> info;
  std::unique_ptr<FetchSchedule> schedule;
  std::unique_ptr<FetchStreams> streams;
  uint64_t received_before = 0;  // by streams that are gone
  uint64_t blocks_fetched = 0;
  std::unique_ptr<SerialQueue> queue;  // last: a job may hold what is above
};

void SnapshotFetch::State::Begin() {
  OnPool([](Download& file) { return file.Begin(); },
         [this](const absl::Status& status) {
           if (!status.ok()) return Finish(status);
           if (download->info() == nullptr) return Look();
           // What was begun is gone on with if it is still a part of the history.
           const v1::SnapshotInfo begun = *download->info();
           Report();
           events.confirm(begun, [weak = weak_from_this(), begun](const absl::Status& verdict) {
             const auto self = weak.lock();
             if (self == nullptr || self->over) return;
             if (absl::IsUnavailable(verdict)) return self->Finish(verdict);
             if (!verdict.ok()) {
               self->download->Abandon();
               return self->Look();
             }
             self->info = begun;
             self->wanted.push_front(begun.version());
             self->Dial();
             self->StartBlocks(nullptr);
           });
         });
}

// Begins to look for a snapshot, from donors that are asked anew.
void SnapshotFetch::State::Look() {
  if (streams != nullptr) received_before += streams->received_bytes();
  streams = nullptr;
  info.reset();
  schedule = nullptr;
  blocks_fetched = 0;
  Dial();
}

void SnapshotFetch::State::Dial() {
  FetchStreams::Hooks hooks;
  const std::weak_ptr<State> weak = weak_from_this();
  hooks.greeting = [this] { return Greeting(); };
  hooks.request = [this](uint64_t block) { return Request(block); };
  hooks.on_frame = [weak](int, std::optional<uint64_t> block, Frame frame, Judge judge) {
    const auto self = weak.lock();
    if (self == nullptr || self->over) return;
    if (!block) return self->TakeInfo(std::move(frame), std::move(judge));
    self->TakeBlock(*block, frame, std::move(judge));
  };
  hooks.on_exhausted = [weak](const absl::Status& status) {
    const auto self = weak.lock();
    if (self != nullptr && !self->over) self->Exhausted(status);
  };
  // One donor until the snapshot is chosen, so that all are asked for the same.
  streams = std::make_unique<FetchStreams>(
      env,
      FetchStreams::Settings{"snapshot", kFetchSnapshotMethod, source.donors,
                             source.failure_timeout, 1},
      std::move(hooks));
}

Frame SnapshotFetch::State::Greeting() const {
  v1::SnapshotRequest request;
  request.set_run_id(source.run_id);
  request.set_newest(wanted.empty());
  if (!wanted.empty()) request.set_version(wanted.front());
  return Pack(request);
}

Frame SnapshotFetch::State::Request(uint64_t block) const {
  v1::SnapshotRequest request;
  request.set_run_id(source.run_id);
  request.set_want_block(true);
  request.set_block(block);
  return Pack(request);
}

void SnapshotFetch::State::TakeInfo(Frame frame, Judge judge) {
  auto answer = std::make_shared<v1::SnapshotBlock>();
  const absl::Status parsed = Unpack(frame, answer.get());
  if (!parsed.ok()) return judge(parsed);
  const v1::SnapshotInfo& told = answer->info();
  if (info.has_value()) {
    if (told.version() == info->version() && told.state_digest() == info->state_digest() &&
        HeaderDigest(told.header()) == HeaderDigest(info->header())) {
      return judge(FetchStreams::Judgement::kWhole);
    }
    return judge(absl::InvalidArgumentError(absl::StrCat("its snapshot of version ", told.version(),
                                                         " is not the one that others gave")));
  }
  if (!wanted.empty() && told.version() != wanted.front()) {
    return judge(absl::InvalidArgumentError(absl::StrCat(
        "version ", wanted.front(), " was asked for, its snapshot is of ", told.version())));
  }
  OnPool([answer](Download& file) { return file.Check(answer->info()); },
         [this, answer, judge](const absl::Status& status) {
           if (!status.ok()) return judge(status);
           events.confirm(answer->info(),
                          [weak = weak_from_this(), answer, judge](const absl::Status& verdict) {
                            const auto self = weak.lock();
                            if (self == nullptr || self->over) return;
                            self->Confirmed(answer->info(), verdict, judge);
                          });
         });
}

void SnapshotFetch::State::Confirmed(const v1::SnapshotInfo& told, const absl::Status& verdict,
                                     const Judge& judge) {
  if (absl::IsUnavailable(verdict)) return Finish(verdict);
  if (!verdict.ok()) return judge(verdict);
  info = told;
  // From here on everybody is asked for this version.
  if (wanted.empty() || wanted.front() != told.version()) wanted.push_front(told.version());
  OnPool([told](Download& file) { return file.Start(told); },
         [this, judge](const absl::Status& status) {
           if (!status.ok()) return Finish(status);
           StartBlocks(judge);
         });
}

// The download stands: everything that is not on this disk is asked for.
void SnapshotFetch::State::StartBlocks(const Judge& judge) {
  auto local = std::make_shared<std::vector<uint64_t>>();
  OnPool(
      [local](Download& file) {
        *local = file.FindLocal();
        return absl::OkStatus();
      },
      [this, local, judge](const absl::Status&) {
        schedule = std::make_unique<FetchSchedule>(0, download->map().blocks(), kWindowBlocks,
                                                   kRequestsAhead);
        schedule->Consumed(download->next_block());
        for (const uint64_t block : *local) schedule->Have(block);
        streams->SetSchedule(schedule.get());
        streams->SetStreams(kDonorsAtOnce);
        if (judge) judge(FetchStreams::Judgement::kWhole);
        Append();
      });
}

void SnapshotFetch::State::TakeBlock(uint64_t block, const Frame& frame, Judge judge) {
  v1::SnapshotBlock answer;
  const absl::Status parsed = Unpack(frame, &answer);
  if (!parsed.ok()) return judge(parsed);
  if (answer.block() != block) {
    return judge(absl::InvalidArgumentError(
        absl::StrCat("block ", answer.block(), " came instead of block ", block)));
  }
  // The second answer for a block that two were asked for.
  if (schedule->IsHere(block)) return judge(FetchStreams::Judgement::kWhole);
  OnPool(
      [block, bytes = frame.payload.Joined()](Download& file) { return file.Take(block, bytes); },
      [this, block, judge](const absl::Status& status) {
        if (!status.ok()) return judge(status);
        if (!schedule->IsHere(block)) ++blocks_fetched;
        judge(FetchStreams::Judgement::kWhole);
        Append();
      });
}

void SnapshotFetch::State::Append() {
  if (appending || completing) return;
  if (download->complete()) return Complete();
  appending = true;
  struct Result {
    std::vector<uint64_t> lost;
    bool more = false;
  };
  auto result = std::make_shared<Result>();
  OnPool(
      [result](Download& file) {
        const absl::StatusOr<bool> more = file.Append(&result->lost);
        if (more.ok()) result->more = *more;
        return more.status();
      },
      [this, result](const absl::Status& status) {
        appending = false;
        if (!status.ok()) return Finish(status);
        schedule->Consumed(download->next_block());
        for (const uint64_t block : result->lost) schedule->Lost(block);
        Report();
        if (over) return;
        if (download->complete()) return Complete();
        streams->Pump();
        const bool next_here = schedule->IsHere(schedule->next());
        if (result->more || next_here) Append();
      });
}

void SnapshotFetch::State::Complete() {
  completing = true;
  FetchedSnapshot fetched;
  fetched.version = info->version();
  fetched.bytes = download->map().total_bytes();
  fetched.blocks = download->map().blocks();
  fetched.blocks_fetched = blocks_fetched;
  fetched.received_bytes = received_before + streams->received_bytes();
  fetched.donors = streams->donors_used();
  streams = nullptr;
  OnPool([](Download& file) { return file.Finish(); },
         [this, fetched](const absl::Status& status) {
           if (!status.ok()) return Finish(status);
           Finish(fetched);
         });
}

// Nobody is left who gives this version: another one, or the end.
void SnapshotFetch::State::Exhausted(const absl::Status& status) {
  const bool lacked = absl::IsNotFound(status) || !info.has_value();
  if (wanted.empty() || !lacked) return Finish(status);
  env.log.Info(
      absl::StrCat("snapshot: nobody gives version ", wanted.front(), "; looking for another"));
  wanted.pop_front();
  OnPool(
      [](Download& file) {
        file.Abandon();
        return absl::OkStatus();
      },
      [this](const absl::Status&) { Look(); });
}

void SnapshotFetch::State::Report() {
  if (events.on_progress != nullptr) {
    events.on_progress(download->bytes(), download->map().total_bytes());
  }
}

void SnapshotFetch::State::Finish(absl::StatusOr<FetchedSnapshot> result) {
  Stop();
  // The owner may destroy the fetch from inside.
  const auto done = std::move(events.on_done);
  if (result.ok()) return done(std::move(result));
  done(Annotate(result.status(), "snapshot"));
}

void SnapshotFetch::State::Stop() {
  over = true;
  streams = nullptr;
}

SnapshotFetch::SnapshotFetch(Env env, FetchSource source, std::string dir, v1::Genesis genesis,
                             std::vector<uint64_t> wanted, Events events)
    : state_(std::make_shared<State>(env, std::move(source), dir, std::move(genesis),
                                     std::move(wanted), std::move(events))) {
  state_->Begin();
}

SnapshotFetch::~SnapshotFetch() {
  state_->Stop();
  state_->queue = nullptr;
}

void SnapshotFetch::SetDonors(const std::vector<std::string>& donors) {
  state_->source.donors = donors;
  if (state_->streams != nullptr) state_->streams->SetDonors(donors);
}

}  // namespace atolld
