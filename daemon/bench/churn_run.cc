#include "daemon/bench/churn_run.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "daemon/bench/churn_driver.h"
#include "daemon/cli/local_layout.h"
#include "daemon/replica/state/verify.h"

namespace atolld {
namespace {

// A daemon's log of days of debug lines is larger; a benchmark's is not.
constexpr uint64_t kLargestLog = uint64_t{1} << 30;

uint64_t VersionAt(const std::vector<Commit>& commits, absl::Time time) {
  uint64_t version = 0;
  for (const Commit& commit : commits) {
    if (commit.at <= time) version = std::max(version, commit.version);
  }
  return version;
}

std::vector<LossPoint> LossesOf(const RunHistory& history) {
  std::vector<LossPoint> points;
  uint64_t tokens = 0;
  auto round = history.rounds().begin();
  for (const auto& [version, evaluation] : history.evaluations()) {
    for (; round != history.rounds().end() && round->first <= version; ++round) {
      tokens += round->second.tokens();
    }
    points.push_back({tokens, evaluation.loss()});
  }
  return points;
}

}  // namespace

// Every log is replayed from its oldest snapshot: each state on the way is compared with the digest
// in the next header. Then two replicas at one version must hold one state.
void ChurnDriver::CheckDigests(ChurnRunResult* result) const {
  result->digest_problem = differing_;
  if (result->digest_problem.empty() && !sealed_run() && !AllAtOneVersion()) {
    result->digest_problem = "the peers were never seen at one version after the last fault";
  }
  std::map<uint64_t, std::pair<std::string, Digest>> ends;
  for (size_t i = 1; i <= cluster_->peers() && result->digest_problem.empty(); ++i) {
    const LocalProcess& process = cluster_->layout().processes[i];
    const absl::StatusOr<VerifyReport> report = VerifyLog(files_, process.dir);
    if (!report.ok()) {
      result->digest_problem = absl::StrCat(process.id, ": ", report.status().message());
      break;
    }
    const auto [end, first] =
        ends.emplace(report->version, std::make_pair(process.id, report->state_digest));
    if (!first && end->second.second != report->state_digest) {
      result->digest_problem = absl::StrCat(process.id, " and ", end->second.first,
                                            " end with different states of version ", end->first);
    }
  }
  if (result->digest_problem.empty() && sealed_run() && ends.size() != 1) {
    result->digest_problem = "not every replica has reached the last version";
  }
  result->digests_equal = result->digest_problem.empty();
}

ChurnRunResult ChurnDriver::Result() {
  ChurnRunResult result;
  ChurnTrace& trace = result.trace;
  for (const LocalProcess& process : cluster_->layout().processes) {
    if (process.role == "peer") trace.peers.push_back(process.id);
    const absl::StatusOr<std::string> text =
        ReadFile(files_, absl::StrCat(process.dir, "/log.txt"), kLargestLog);
    if (text.ok()) trace.logs[process.id] = ParseLog(*text);
  }
  trace.commits = CommitsOf(trace.logs[cluster_->layout().coordinator().id]);
  trace.faults = landed_faults_;
  trace.began = began_;
  result.seconds = absl::ToDoubleSeconds(ended_ - began_);
  const uint64_t first = VersionAt(trace.commits, began_);
  const uint64_t last = VersionAt(trace.commits, ended_);
  result.rounds = last - first;
  for (const auto& [version, round] : history_.rounds()) {
    if (version > first && version <= last) result.tokens += round.tokens();
  }
  result.mean_live_fraction = live_.mean();
  result.losses = LossesOf(history_);
  result.rss_growth = rss_growth_;
  result.unexpected_exits = unexpected_;
  result.not_back = not_back_;
  CheckDigests(&result);
  return result;
}

absl::StatusOr<ChurnRunResult> RunUnderChurn(Files& files, SignalWaiter& signals,
                                             const ChurnRunSettings& settings) {
  ChurnDriver driver(files, signals, settings);
  RETURN_IF_ERROR(driver.Run());
  return driver.Result();
}

}  // namespace atolld
