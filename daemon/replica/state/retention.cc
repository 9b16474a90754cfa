#include "daemon/replica/state/retention.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"

namespace atolld {
namespace {

// How long a pass rests after a slice, in multiples of the slice's time. The rests leave a
// processor's time to the worker and the exchange.
constexpr int kRest = 3;
constexpr int kRestWhileBusy = 15;

// A slice takes far less than a second. One that has taken longer was held up, by the disk or
// because this process was stopped, and says nothing about its work.
constexpr absl::Duration kLongestRest = absl::Seconds(10);

// A failed pass is tried again after at most kLongestWait versions. If no version follows, it is
// tried again after kPauseOfVersion for each version that it would have waited for.
constexpr uint64_t kLongestWait = 64;
constexpr absl::Duration kPauseOfVersion = absl::Seconds(5);

// Returns 1, 2, 4 ... versions after 0, 1, 2 ... earlier failures.
uint64_t VersionsToWait(uint64_t failures) {
  return std::min(kLongestWait, uint64_t{1} << std::min<uint64_t>(failures, 6));
}

}  // namespace

Retention::Retention(Env env, std::string dir, const RetentionPolicy& policy, Events events)
    : env_(env), dir_(std::move(dir)), policy_(policy), events_(std::move(events)) {}

Retention::~Retention() = default;

void Retention::Advance(uint64_t version, const Digest& state) {
  const Standing standing{version, state};
  if (!idle()) {
    next_ = standing;
    return;
  }
  if (version >= not_before_) Begin(standing);
}

void Retention::Begin(const Standing& standing) {
  version_ = standing.version;
  pass_ =
      std::make_shared<RetentionPass>(env_.files, dir_, policy_, standing.version, standing.state);
  RunSlice();
}

void Retention::RunSlice() {
  auto over = std::make_shared<absl::StatusOr<bool>>(false);
  const absl::Time began = env_.executor.Now();
  env_.executor.Offload([pass = pass_, over] { *over = pass->Step(); },
                        guard_.Wrap([this, over, began] { AfterSlice(*over, began); }));
}

void Retention::AfterSlice(const absl::StatusOr<bool>& over, absl::Time began) {
  if (!over.ok()) return End(over.status());
  if (*over) return End(absl::OkStatus());
  const absl::Duration took = env_.executor.Now() - began;
  const absl::Duration rest = std::min(kLongestRest, took * (busy_ ? kRestWhileBusy : kRest));
  if (hurry_ || pass_->urgent() || rest <= absl::ZeroDuration()) return RunSlice();
  rest_ = env_.executor.RunAfter(rest, guard_.Wrap([this] {
    rest_.reset();
    RunSlice();
  }));
}

void Retention::Hurry() {
  if (idle()) return;
  hurry_ = true;
  if (!rest_.has_value()) return;
  env_.executor.Cancel(*std::exchange(rest_, std::nullopt));
  RunSlice();
}

absl::Duration Retention::RetryPause() const {
  return kPauseOfVersion * VersionsToWait(failures_ - std::min<uint64_t>(failures_, 1));
}

void Retention::End(const absl::Status& status) {
  const std::shared_ptr<RetentionPass> pass = std::exchange(pass_, nullptr);
  hurry_ = false;
  const RetentionReport& report = pass->report();
  const absl::Status judged = Judge(status, report.fatal);
  Tell(judged, report);
  if (judged.ok()) offer_ = report.offer;
  events_.on_pass(judged, report, HeaderAllowance(policy_, report.limit));
  const std::optional<Standing> next = std::exchange(next_, std::nullopt);
  if (next.has_value()) Advance(next->version, next->state);
}

absl::Status Retention::Judge(const absl::Status& status, BuildFault fault) {
  if (status.ok()) {
    failures_ = 0;
    not_before_ = 0;
    in_doubt_.reset();
    return status;
  }
  not_before_ = version_ + VersionsToWait(failures_);
  ++failures_;
  if (fault != BuildFault::kState || in_doubt_.value_or(version_) != version_) return status;
  in_doubt_ = version_;
  return absl::AbortedError(status.message());
}

void Retention::Tell(const absl::Status& status, const RetentionReport& report) {
  const std::string round = absl::StrCat("round ", version_, ": ");
  for (const absl::Status& fault : report.faults) {
    if (fault.message() == status.message()) continue;  // told below
    env_.log.Error(absl::StrCat(round, "the disk: ", fault.message()));
  }
  if (absl::IsDataLoss(status)) {
    env_.log.Error(absl::StrCat(round, "the disk can make no snapshot any more, the state in ",
                                "memory goes on: ", status.message()));
  } else if (absl::IsAborted(status)) {
    env_.log.Error(absl::StrCat(
        round, "disk and memory disagree, the next commit will tell: ", status.message()));
  } else if (!status.ok()) {
    env_.log.Warning(absl::StrCat(round, status.message()));
  }
  if (report.made.has_value()) {
    env_.log.Info(absl::StrCat(round, "snapshot of version ", *report.made,
                               "; log and snapshots take ", report.bytes, " bytes"));
  }
  if (report.limit > policy_.keep_bytes && !std::exchange(limit_told_, true)) {
    env_.log.Warning(absl::StrCat("peer.keep_bytes is ", policy_.keep_bytes,
                                  "; the least that can work for this run is ", report.limit,
                                  " (two snapshots and five entries), that is used"));
  }
}

}  // namespace atolld
