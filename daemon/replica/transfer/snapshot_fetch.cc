// SnapshotFetch: the receiving end for a snapshot, its blocks from several donors at once.
//
// Blocks are asked for by number and checked against the leaves, so it does not matter which donor
// sends which block. One snapshot is fetched at a time: the first one that a donor describes and
// the owner confirms; all other donors are then asked for its blocks. Download is the file into
// which the blocks are written.
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "atoll/v1/replica.pb.h"
#include "compression/base/bytes.h"
#include "compression/base/check.h"
#include "compression/base/status_macros.h"
#include "daemon/env/env.h"
#include "daemon/replica/state/layout.h"
#include "daemon/replica/state/record.h"
#include "daemon/replica/state/snapshot.h"
#include "daemon/replica/state/state_digest.h"
#include "daemon/replica/transfer/fetch_schedule.h"
#include "daemon/replica/transfer/fetch_streams.h"
#include "daemon/replica/transfer/transfer.h"
#include "membership/history/digest.h"
#include "membership/history/header.h"

namespace atolld {
namespace {

// The requests under way to a donor. They hide the round trip on long links (4 MiB in flight) and
// limit what the donor reads for nothing.
constexpr size_t kRequestsAhead = 4;

// The number of blocks of 1 MiB that may be here before their turn, because a slow donor holds up
// others.
constexpr uint64_t kWindowBlocks = 32;

// The number of blocks that one job appends: enough to be worth a job, and few enough that other
// jobs on the pool do not wait for a whole snapshot.
constexpr int kBlocksAJob = 32;

// The number of blocks after which the prefix is made durable; a crash of the machine can lose as
// many.
constexpr int kBlocksASync = 64;

// The file that a fetch fills, block by block in order, so that its content is always a prefix that
// can be continued after a restart.
//
// Blocks may come in any order: those ahead of the prefix wait in memory (the fetch limits how far
// ahead it asks), and those that a snapshot on this disk holds with the same leaf are copied from
// there. Runs one job at a time, on the pool; blocking.
class Download {
 public:
  Download(Files& files, std::string dir, v1::Genesis genesis);

  // Takes up what an earlier fetch left, if it is of this run and sound. FAILED_PRECONDITION: the
  // directory holds a replica of another genesis.
  absl::Status Begin();

  // Of the snapshot that is being filled; nullptr: none.
  const v1::SnapshotInfo* info() const { return writer_ ? &writer_->info() : nullptr; }
  const BlockMap& map() const { return writer_->map(); }
  uint64_t next_block() const { return writer_->next_block(); }
  bool complete() const { return next_block() == map().blocks(); }
  uint64_t bytes() const;  // of the prefix

  // INVALID_ARGUMENT: none of this run, or its parts disagree; before its leaves are here, those
  // but for them. Changes nothing.
  absl::Status CheckShape(const v1::SnapshotInfo& info) const;
  absl::Status Check(const v1::SnapshotInfo& info) const;
  // Begins this one, which must have passed Check. What was begun before is kept as a place where
  // blocks may be found. Errors of this and what follows are this machine's, where not said
  // otherwise.
  absl::Status Start(const v1::SnapshotInfo& info);
  // This version is of no use any more.
  void Abandon();

  // Blocks at or after next_block() that can be copied from this disk, as far as their leaves say.
  std::vector<uint64_t> FindLocal();
  // DATA_LOSS: it is not what its leaf says.
  absl::Status Take(uint64_t block, const SharedBytes& bytes);
  // Appends what is here, a few blocks at most. `lost` gets a block that could not be copied after
  // all. True: call it again.
  absl::StatusOr<bool> Append(std::vector<uint64_t>* lost);

  // Gives the complete file its name under snapshots/.
  absl::Status Finish();

 private:
  std::string PartialPath() const;
  std::string FormerPath() const;
  absl::Status AppendNext(absl::Span<const uint8_t> bytes);

  Files& files_;
  const std::string dir_;
  const v1::Genesis genesis_;
  std::unique_ptr<SnapshotWriter> writer_;
  std::vector<std::unique_ptr<SnapshotReader>> local_files_;
  std::map<uint64_t, size_t> local_;  // block -> which of the files holds it
  std::map<uint64_t, SharedBytes> waiting_;
  int unsynced_blocks_ = 0;
};

Download::Download(Files& files, std::string dir, v1::Genesis genesis)
    : files_(files), dir_(std::move(dir)), genesis_(std::move(genesis)) {}

std::string Download::PartialPath() const {
  return absl::StrCat(FetchDirectory(dir_), "/snapshot");
}
std::string Download::FormerPath() const { return absl::StrCat(FetchDirectory(dir_), "/former"); }

absl::Status Download::Begin() {
  RETURN_IF_ERROR(CheckGenesis(genesis_));
  v1::Genesis known;
  const absl::Status status = ReadMessageFile(files_, GenesisPath(dir_), &known);
  if (!status.ok() && !absl::IsNotFound(status)) return status;
  if (status.ok() && GenesisDigest(known) != GenesisDigest(genesis_)) {
    return absl::FailedPreconditionError(absl::StrCat(
        dir_, ": it holds a replica of run ", known.spec().run_id(), " with another genesis"));
  }
  RETURN_IF_ERROR(files_.MakeDirectories(FetchDirectory(dir_)));
  RETURN_IF_ERROR(files_.MakeDirectories(SnapshotsDirectory(dir_)));
  absl::StatusOr<std::unique_ptr<SnapshotWriter>> resumed =
      SnapshotWriter::Resume(files_, PartialPath());
  if (resumed.ok() && GenesisDigest((*resumed)->info().genesis()) == GenesisDigest(genesis_)) {
    writer_ = *std::move(resumed);
  } else if (!resumed.ok() && !absl::IsNotFound(resumed.status()) &&
             !absl::IsDataLoss(resumed.status())) {
    return resumed.status();
  }
  return absl::OkStatus();
}

absl::Status Download::CheckShape(const v1::SnapshotInfo& info) const {
  if (GenesisDigest(info.genesis()) != GenesisDigest(genesis_)) {
    return absl::InvalidArgumentError("its snapshot has another genesis");
  }
  return CheckSnapshotShape(info);
}

absl::Status Download::Check(const v1::SnapshotInfo& info) const {
  RETURN_IF_ERROR(CheckShape(info));
  return CheckSnapshotInfo(info);
}

absl::Status Download::Start(const v1::SnapshotInfo& info) {
  Abandon();
  if (files_.Exists(PartialPath())) RETURN_IF_ERROR(files_.Rename(PartialPath(), FormerPath()));
  ASSIGN_OR_RETURN(writer_, SnapshotWriter::Create(files_, PartialPath(), info));
  return absl::OkStatus();
}

void Download::Abandon() {
  writer_ = nullptr;
  local_files_.clear();
  local_.clear();
  waiting_.clear();
}

std::vector<uint64_t> Download::FindLocal() {
  std::vector<std::string> paths;
  const absl::StatusOr<std::vector<std::string>> names = files_.List(SnapshotsDirectory(dir_));
  if (names.ok()) {
    for (auto it = names->rbegin(); it != names->rend(); ++it) {
      paths.push_back(absl::StrCat(SnapshotsDirectory(dir_), "/", *it));
    }
  }
  paths.push_back(FormerPath());
  for (const std::string& path : paths) {
    absl::StatusOr<std::unique_ptr<SnapshotReader>> reader =
        SnapshotReader::OpenPartial(files_, path);
    if (!reader.ok()) continue;  // whatever it is, it is no place to look for blocks
    const v1::SnapshotInfo& other = (*reader)->info();
    if (GenesisDigest(other.genesis()) != GenesisDigest(genesis_)) continue;
    bool any = false;
    for (uint64_t block = next_block(); block < map().blocks(); ++block) {
      const int buffer = map().Buffer(block);
      const int leaf = static_cast<int>(map().InBuffer(block));
      if (other.buffers(buffer).leaves(leaf) != info()->buffers(buffer).leaves(leaf)) continue;
      any |= local_.emplace(block, local_files_.size()).second;
    }
    if (any) local_files_.push_back(*std::move(reader));
  }
  std::vector<uint64_t> blocks;
  for (const auto& [block, file] : local_) blocks.push_back(block);
  return blocks;
}

absl::Status Download::Take(uint64_t block, const SharedBytes& bytes) {
  CHECK(writer_ != nullptr);
  if (block >= map().blocks()) return absl::DataLossError("there is no such block");
  RETURN_IF_ERROR(CheckBlock(*info(), map(), block, bytes.span()));
  if (block >= next_block()) waiting_.emplace(block, bytes);
  return absl::OkStatus();
}

absl::StatusOr<bool> Download::Append(std::vector<uint64_t>* lost) {
  for (int i = 0; i < kBlocksAJob && !complete(); ++i) {
    const uint64_t block = next_block();
    const auto here = waiting_.find(block);
    if (here != waiting_.end()) {
      RETURN_IF_ERROR(AppendNext(here->second.span()));
      waiting_.erase(here);
      continue;
    }
    const auto local = local_.find(block);
    if (local == local_.end()) return false;
    std::vector<uint8_t> bytes(map().Bytes(block));
    const absl::Status read = local_files_[local->second]->ReadBlock(block, absl::MakeSpan(bytes));
    local_.erase(local);
    if (!read.ok()) {
      lost->push_back(block);
      return false;
    }
    RETURN_IF_ERROR(AppendNext(bytes));
  }
  return !complete();
}

absl::Status Download::AppendNext(absl::Span<const uint8_t> bytes) {
  RETURN_IF_ERROR(writer_->AppendBlock(bytes));
  if (++unsynced_blocks_ < kBlocksASync) return absl::OkStatus();
  unsynced_blocks_ = 0;
  return writer_->Sync();
}

absl::Status Download::Finish() {
  RETURN_IF_ERROR(writer_->Finish(SnapshotPath(dir_, writer_->info().version())));
  writer_ = nullptr;
  local_files_.clear();
  RETURN_IF_ERROR(files_.Remove(FormerPath()));
  RETURN_IF_ERROR(files_.SyncDirectory(dir_));
  if (files_.Exists(GenesisPath(dir_))) return absl::OkStatus();
  return WriteMessageFile(files_, GenesisPath(dir_), genesis_);
}

uint64_t Download::bytes() const {
  const uint64_t full = next_block() / map().blocks_a_buffer();
  const uint64_t buffers = static_cast<uint64_t>(info()->buffers_size());
  return full * (map().total_bytes() / buffers) +
         (next_block() % map().blocks_a_buffer()) * kBlockBytes;
}

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
  void TakeInfo(int stream, const Frame& frame, const Judge& judge);
  void TakeDescription(int stream, const v1::SnapshotInfo& told, const Judge& judge);
  void TakeLeaves(const v1::SnapshotLeaves& page, const Judge& judge);
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
  // What the donor of this stream describes, until all leaves are here. One donor is asked at a
  // time.
  struct Describing {
    int stream;
    std::shared_ptr<SnapshotPages> pages;
  };
  std::optional<Describing> describing;
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

// Begins to look for a snapshot, and asks all donors anew.
void SnapshotFetch::State::Look() {
  if (streams != nullptr) received_before += streams->received_bytes();
  streams = nullptr;
  info.reset();
  describing.reset();
  schedule = nullptr;
  blocks_fetched = 0;
  Dial();
}

void SnapshotFetch::State::Dial() {
  FetchStreams::Hooks hooks;
  const std::weak_ptr<State> weak = weak_from_this();
  hooks.greeting = [this] { return Greeting(); };
  hooks.request = [this](uint64_t block) { return Request(block); };
  hooks.on_frame = [weak](int stream, std::optional<uint64_t> block, const Frame& frame,
                          Judge judge) {
    const auto self = weak.lock();
    if (self == nullptr || self->over) return;
    if (!block) return self->TakeInfo(stream, frame, judge);
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
                             source.failure_timeout, 1, source.lines, source.on_failed},
      std::move(hooks));
}

Frame SnapshotFetch::State::Greeting() const {
  v1::SnapshotRequest request;
  request.set_run_id(source.run_id);
  request.set_newest(wanted.empty());
  if (!wanted.empty()) request.set_version(wanted.front());
  request.set_without_leaves(info.has_value());
  return Pack(request);
}

Frame SnapshotFetch::State::Request(uint64_t block) const {
  v1::SnapshotRequest request;
  request.set_run_id(source.run_id);
  request.set_want_block(true);
  request.set_block(block);
  return Pack(request);
}

void SnapshotFetch::State::TakeInfo(int stream, const Frame& frame, const Judge& judge) {
  v1::SnapshotBlock answer;
  const absl::Status parsed = Unpack(frame, &answer);
  if (!parsed.ok()) return judge(parsed);
  const v1::SnapshotInfo& told = answer.info();
  if (info.has_value()) {
    if (told.version() == info->version() && told.state_digest() == info->state_digest() &&
        HeaderDigest(told.header()) == HeaderDigest(info->header())) {
      return judge(FetchStreams::Judgement::kWhole);
    }
    return judge(absl::InvalidArgumentError(absl::StrCat("its snapshot of version ", told.version(),
                                                         " is not the one that others gave")));
  }
  if (describing && describing->stream == stream) return TakeLeaves(answer.leaves(), judge);
  if (!wanted.empty() && told.version() != wanted.front()) {
    return judge(absl::InvalidArgumentError(absl::StrCat(
        "version ", wanted.front(), " was asked for, its snapshot is of ", told.version())));
  }
  TakeDescription(stream, told, judge);
}

// Takes a description without its leaves; no more leaves are accepted than a state of this run has.
void SnapshotFetch::State::TakeDescription(int stream, const v1::SnapshotInfo& told,
                                           const Judge& judge) {
  auto pages = std::make_shared<SnapshotPages>();
  OnPool(
      [told, pages](Download& file) {
        RETURN_IF_ERROR(file.CheckShape(told));
        return pages->Begin(told);
      },
      [this, stream, pages, judge](const absl::Status& status) {
        if (!status.ok()) return judge(status);
        describing = {stream, pages};
        judge(FetchStreams::Judgement::kMore);
      });
}

void SnapshotFetch::State::TakeLeaves(const v1::SnapshotLeaves& page, const Judge& judge) {
  const std::shared_ptr<SnapshotPages> pages = describing->pages;
  const absl::Status taken = pages->Take(page);
  if (!taken.ok()) return judge(taken);
  if (!pages->complete()) return judge(FetchStreams::Judgement::kMore);
  describing.reset();
  OnPool([pages](Download& file) { return file.Check(pages->info()); },
         [this, pages, judge](const absl::Status& status) {
           if (!status.ok()) return judge(status);
           events.confirm(pages->info(),
                          [weak = weak_from_this(), pages, judge](const absl::Status& verdict) {
                            const auto self = weak.lock();
                            if (self == nullptr || self->over) return;
                            self->Confirmed(pages->info(), verdict, judge);
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

// The download is ready: asks for all blocks that are not on this disk.
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
    bool given_up = false;
  };
  auto result = std::make_shared<Result>();
  OnPool(
      [result](Download& file) {
        // The version was given up while this waited for its turn.
        result->given_up = file.info() == nullptr;
        if (result->given_up) return absl::OkStatus();
        const absl::StatusOr<bool> more = file.Append(&result->lost);
        if (more.ok()) result->more = *more;
        return more.status();
      },
      [this, result](const absl::Status& status) {
        appending = false;
        if (!status.ok()) return Finish(status);
        if (result->given_up) return;
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

// No donor is left that gives this version: looks for another one, or ends. `status` is that of the
// last donor only. Other donors may lack the version even if it does not say so, so a version of
// which no block came counts as lacking. The blocks that are here stay on the disk and are used for
// the next version.
void SnapshotFetch::State::Exhausted(const absl::Status& status) {
  const bool lacked = absl::IsNotFound(status) || !info.has_value() || blocks_fetched == 0;
  if (wanted.empty() || !lacked) return Finish(status);
  const std::string line =
      absl::StrCat("snapshot: nobody gives version ", wanted.front(), "; looking for another");
  if (source.lines == nullptr) {
    env.log.Info(line);
  } else {
    source.lines->Write(Log::Level::kInfo, WithoutNumbers(line), line);
  }
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
