// ChainFetch: headers from the newest known one backwards, so that each is vouched for by its
// successor the moment it comes.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "atoll/v1/replica.pb.h"
#include "compression/base/check.h"
#include "compression/base/status_macros.h"
#include "daemon/replica/transfer/fetch_schedule.h"
#include "daemon/replica/transfer/fetch_streams.h"
#include "daemon/replica/transfer/transfer.h"
#include "membership/history/header.h"
#include "membership/history/signature.h"

namespace atolld {
namespace {

// Headers are small and their order is the check: one donor at a time, many requests ahead.
constexpr uint64_t kHeadersAhead = 64;

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
                             1},
      std::move(hooks));
  state_->streams->SetSchedule(&state_->schedule);
}

ChainFetch::~ChainFetch() = default;

void ChainFetch::SetDonors(const std::vector<std::string>& donors) {
  if (state_->streams != nullptr) state_->streams->SetDonors(donors);
}

}  // namespace atolld
