// The receiving ends for the log. ChainFetch takes headers, from the newest known one backwards, so
// that each is vouched for by its successor as soon as it comes. EntryFetch takes the payloads of
// known headers: while one is applied, the next ones come from other donors.
#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "atoll/v1/replica.pb.h"
#include "compression/base/check.h"
#include "compression/base/status_macros.h"
#include "daemon/replica/transfer/fetch_schedule.h"
#include "daemon/replica/transfer/fetch_streams.h"
#include "daemon/replica/transfer/transfer.h"
#include "membership/history/header.h"

namespace atolld {
namespace {

// Headers are small and their order is the check: one donor at a time, many requests ahead.
constexpr uint64_t kHeadersAhead = 64;

// The most bytes of entries that are held until their turn comes. At least two entries are held
// (one being applied, one under way), and so few that a lost donor costs little.
constexpr uint64_t kHeldBytes = uint64_t{64} << 20;
constexpr uint64_t kMostHeld = 8;

uint64_t Window(uint64_t payload_limit) {
  return std::clamp<uint64_t>(kHeldBytes / std::max<uint64_t>(payload_limit, 1), 2, kMostHeld);
}

// Returns the requests ahead of one donor: small entries would otherwise cost a round trip each,
// while the next large entry is better taken from another donor.
size_t RequestsAhead(uint64_t payload_limit) { return payload_limit < kBlockBytes ? 4 : 1; }

}  // namespace

struct ChainFetch::State : std::enable_shared_from_this<ChainFetch::State> {
  State(const FetchSource& source, uint64_t first_in, uint64_t last_in, const Digest& newest,
        Done done_in)
      : run_id(source.run_id),
        payload_limit(source.payload_limit),
        spec(source.spec),
        last(last_in),
        done(std::move(done_in)),
        expected(newest),
        schedule(0, last_in - first_in + 1, kHeadersAhead, kHeadersAhead) {}

  absl::Status Take(const Frame& frame, uint64_t version);
  void OnFrame(std::optional<uint64_t> item, const Frame& frame, const FetchStreams::Judge& judge);
  void Finish(const absl::Status& status);

  const std::string run_id;
  const uint64_t payload_limit;
  const v1::RunSpec spec;
  const uint64_t last;
  Done done;
  Digest expected;  // of the header that comes next
  std::vector<ChainLink> links;
  FetchSchedule schedule;  // item i is version last - i
  std::unique_ptr<FetchStreams> streams;
};

absl::Status ChainFetch::State::Take(const Frame& frame, uint64_t version) {
  v1::EntryBlock block;
  RETURN_IF_ERROR(Unpack(frame, &block));
  if (block.header().version() != version || HeaderDigest(block.header()) != expected) {
    return absl::InvalidArgumentError(
        absl::StrCat("its header of version ", version, " is not of this history"));
  }
  // The digest does not cover the signature, and a header without it serves nobody later.
  RETURN_IF_ERROR(CheckSigned(spec, block.header()));
  if (block.total() == 0 || block.total() > payload_limit) {
    return absl::InvalidArgumentError(
        absl::StrCat("entry ", version, " cannot have ", block.total(), " bytes"));
  }
  const absl::StatusOr<Digest> previous = DigestFromBytes(block.header().previous_header_digest());
  RETURN_IF_ERROR(previous.status());
  expected = *previous;
  links.push_back({std::move(*block.mutable_header()), block.total()});
  return absl::OkStatus();
}

void ChainFetch::State::OnFrame(std::optional<uint64_t> item, const Frame& frame,
                                const FetchStreams::Judge& judge) {
  const absl::Status status = Take(frame, last - *item);
  if (!status.ok()) return judge(status);
  judge(FetchStreams::Judgement::kWhole);
  schedule.Consumed(*item + 1);
  if (schedule.missing() == 0) Finish(absl::OkStatus());
}

void ChainFetch::State::Finish(const absl::Status& status) {
  streams = nullptr;
  const Done callback = std::move(done);  // the owner may destroy the fetch from inside
  if (!status.ok()) {
    return callback(
        Annotate(status, absl::StrCat("header ", last - static_cast<uint64_t>(links.size()))));
  }
  std::reverse(links.begin(), links.end());
  callback(std::move(links));
}

ChainFetch::ChainFetch(Env env, FetchSource source, uint64_t first, uint64_t last,
                       const Digest& newest, Done done) {
  CHECK(first <= last);
  state_ = std::make_shared<State>(source, first, last, newest, std::move(done));
  FetchStreams::Hooks hooks;
  const std::weak_ptr<State> weak = state_;
  hooks.request = [run_id = source.run_id, last](uint64_t item) {
    v1::EntriesRequest request;
    request.set_run_id(run_id);
    request.set_version(last - item);
    request.set_header_only(true);
    return Pack(request);
  };
  hooks.on_frame = [weak](int, std::optional<uint64_t> item, const Frame& frame,
                          const FetchStreams::Judge& judge) {
    if (const auto self = weak.lock()) self->OnFrame(item, frame, judge);
  };
  hooks.on_exhausted = [weak](const absl::Status& status) {
    if (const auto self = weak.lock()) self->Finish(status);
  };
  state_->streams = std::make_unique<FetchStreams>(
      env,
      FetchStreams::Settings{"headers", kFetchEntriesMethod, source.donors, source.failure_timeout,
                             1, source.lines, source.on_failed},
      std::move(hooks));
  state_->streams->SetSchedule(&state_->schedule);
}

ChainFetch::~ChainFetch() = default;

void ChainFetch::SetDonors(const std::vector<std::string>& donors) {
  if (state_->streams != nullptr) state_->streams->SetDonors(donors);
}

struct EntryFetch::State : std::enable_shared_from_this<EntryFetch::State> {
  State(Env env_in, const FetchSource& source, std::vector<v1::EntryHeader> headers_in,
        Events events_in)
      : env(env_in),
        payload_limit(source.payload_limit),
        headers(std::move(headers_in)),
        first(headers.front().version()),
        events(std::move(events_in)),
        schedule(first, first + headers.size(), Window(payload_limit),
                 RequestsAhead(payload_limit)) {}

  void OnFrame(int stream, uint64_t version, const Frame& frame, FetchStreams::Judge judge);
  absl::Status TakeBlock(uint64_t version, const v1::EntryBlock& block, const ByteParts& payload,
                         std::vector<uint8_t>* bytes) const;
  void CheckEntry(uint64_t version, std::vector<uint8_t> bytes, FetchStreams::Judge judge);
  void HandOver();
  void Finish(const absl::Status& status);

  const Env env;
  const uint64_t payload_limit;
  const std::vector<v1::EntryHeader> headers;
  const uint64_t first;
  Events events;
  FetchSchedule schedule;                     // items are versions
  std::map<int, std::vector<uint8_t>> bytes;  // of each stream's unfinished entry
  std::map<uint64_t, SharedBytes> held;       // checked, their turn is still to come
  bool handed = false;                        // the owner has an entry and has not asked for more
  bool over = false;
  std::unique_ptr<FetchStreams> streams;
};

void EntryFetch::State::OnFrame(int stream, uint64_t version, const Frame& frame,
                                FetchStreams::Judge judge) {
  v1::EntryBlock block;
  absl::Status status = Unpack(frame, &block);
  std::vector<uint8_t>& so_far = bytes[stream];
  if (status.ok()) status = TakeBlock(version, block, frame.payload, &so_far);
  if (!status.ok()) return judge(status);
  if (so_far.size() < block.total()) return judge(FetchStreams::Judgement::kMore);
  CheckEntry(version, std::exchange(so_far, {}), std::move(judge));
}

absl::Status EntryFetch::State::TakeBlock(uint64_t version, const v1::EntryBlock& block,
                                          const ByteParts& payload,
                                          std::vector<uint8_t>* so_far) const {
  if (so_far->empty() && block.header().version() != version) {
    return absl::InvalidArgumentError(absl::StrCat("entry ", version,
                                                   ": the answer begins with the header of entry ",
                                                   block.header().version()));
  }
  // What is kept grows with what has come, never with what was announced.
  if (block.offset() != so_far->size() || block.total() > payload_limit || payload.empty() ||
      payload.size() > kBlockBytes || payload.size() > block.total() - block.offset()) {
    return absl::InvalidArgumentError(
        absl::StrCat("entry ", version, ": a block of ", payload.size(), " bytes at ",
                     block.offset(), " of ", block.total(), " came after ", so_far->size()));
  }
  for (const SharedBytes& part : payload.parts()) {
    so_far->insert(so_far->end(), part.span().begin(), part.span().end());
  }
  return absl::OkStatus();
}

void EntryFetch::State::CheckEntry(uint64_t version, std::vector<uint8_t> whole,
                                   FetchStreams::Judge judge) {
  auto payload = std::make_shared<const SharedBytes>(std::move(whole));
  auto same = std::make_shared<bool>(false);
  env.executor.Offload(
      [payload, same, digest = headers[version - first].payload_digest()] {
        *same = ToBytes(TreeDigest(payload->span())) == digest;
      },
      [weak = weak_from_this(), version, payload, same, judge = std::move(judge)] {
        const auto self = weak.lock();
        if (self == nullptr || self->over) return;
        if (!*same) {
          return judge(absl::InvalidArgumentError(
              absl::StrCat("entry ", version, ": the payload's digest differs from the header's")));
        }
        if (!self->schedule.IsHere(version)) self->held[version] = *payload;
        judge(FetchStreams::Judgement::kWhole);
        self->HandOver();
      });
}

void EntryFetch::State::HandOver() {
  if (handed || over) return;
  const uint64_t version = schedule.next();
  const auto next = held.find(version);
  if (next == held.end()) return;
  handed = true;
  Entry entry{headers[version - first], std::move(next->second)};
  held.erase(next);
  events.on_entry(std::move(entry), [weak = weak_from_this(), version] {
    const auto self = weak.lock();
    if (self == nullptr || self->over || self->schedule.next() != version) return;
    self->handed = false;
    self->schedule.Consumed(version + 1);
    if (self->schedule.missing() == 0 && self->held.empty()) return self->Finish(absl::OkStatus());
    self->streams->Pump();
    self->HandOver();
  });
}

void EntryFetch::State::Finish(const absl::Status& status) {
  over = true;
  // The owner may destroy the fetch, and with it `events`, from inside.
  const auto on_done = std::move(events.on_done);
  on_done(Annotate(status, absl::StrCat("entry ", schedule.next())));
}

EntryFetch::EntryFetch(Env env, FetchSource source, std::vector<v1::EntryHeader> headers,
                       Events events) {
  CHECK(!headers.empty());
  state_ = std::make_shared<State>(env, source, std::move(headers), std::move(events));
  const std::weak_ptr<State> weak = state_;
  FetchStreams::Hooks hooks;
  hooks.request = [run_id = source.run_id](uint64_t item) {
    v1::EntriesRequest request;
    request.set_run_id(run_id);
    request.set_version(item);
    return Pack(request);
  };
  hooks.on_frame = [weak](int stream, std::optional<uint64_t> item, const Frame& frame,
                          FetchStreams::Judge judge) {
    if (const auto self = weak.lock()) self->OnFrame(stream, *item, frame, std::move(judge));
  };
  hooks.on_left = [weak](int stream) {
    if (const auto self = weak.lock()) self->bytes.erase(stream);
  };
  hooks.on_exhausted = [weak](const absl::Status& status) {
    const auto self = weak.lock();
    if (self != nullptr && !self->over) self->Finish(status);
  };
  state_->streams = std::make_unique<FetchStreams>(
      env,
      FetchStreams::Settings{"entries", kFetchEntriesMethod, source.donors, source.failure_timeout,
                             kDonorsAtOnce, source.lines, source.on_failed},
      std::move(hooks));
  state_->streams->SetSchedule(&state_->schedule);
}

EntryFetch::~EntryFetch() {
  state_->over = true;
  state_->streams = nullptr;
}

void EntryFetch::SetDonors(const std::vector<std::string>& donors) {
  state_->streams->SetDonors(donors);
}

uint64_t EntryFetch::received_bytes() const { return state_->streams->received_bytes(); }
size_t EntryFetch::donors_used() const { return state_->streams->donors_used(); }

}  // namespace atolld
