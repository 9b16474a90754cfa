// RoundRunner, its worker's shares of evaluations.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "daemon/peer/round_runner.h"

namespace atolld {

void RoundRunner::OnEvaluate(const v1::Evaluate& evaluate) {
  if (!keeper_.has_state() || evaluate.version() > keeper_.version()) {
    next_evaluates_.push_back(evaluate);  // that version is still to be committed here
    return;
  }
  if (!worker_ready_ || evaluate.version() < keeper_.version()) return;
  if (evaluates_.empty()) WatchEvaluation(evaluate.version());
  evaluates_.push_back(evaluate);
  keeper_.HoldCommits(true);  // theta must be one version's while the worker reads it
  v1::DaemonMessage message;
  message.mutable_evaluate()->set_version(evaluate.version());
  message.mutable_evaluate()->set_share(evaluate.share());
  message.mutable_evaluate()->set_shares(evaluate.shares());
  trainer_.Send(message);
}

// The run does not wait for a slow worker's share, so this replica must not fall behind for it: the
// others, who hold what it lacks, may leave meanwhile.
void RoundRunner::WatchEvaluation(uint64_t version) {
  env_.executor.RunAfter(failure_timeout_, guard_.Wrap([this, version] {
    if (evaluates_.empty() || evaluates_.front().version() != version) return;
    if (!keeper_.behind()) return WatchEvaluation(version);
    env_.log.Info(absl::StrCat("version ", keeper_.version(),
                               ": its evaluation takes too long here and is given up"));
    evaluates_.clear();
    keeper_.HoldCommits(false);
  }));
}

void RoundRunner::OnEvaluated(const v1::WorkerEvaluated& evaluated) {
  const auto asked =
      std::find_if(evaluates_.begin(), evaluates_.end(), [&](const v1::Evaluate& evaluate) {
        return evaluate.version() == evaluated.version() && evaluate.share() == evaluated.share() &&
               evaluate.shares() == evaluated.shares();
      });
  if (asked == evaluates_.end()) return;
  evaluates_.erase(asked);
  v1::PeerMessage message;
  v1::Evaluated* answer = message.mutable_evaluated();
  answer->set_version(evaluated.version());
  answer->set_share(evaluated.share());
  answer->set_shares(evaluated.shares());
  answer->set_loss_sum(evaluated.loss_sum());
  answer->set_tokens(evaluated.tokens());
  events_.send(message);
  if (evaluates_.empty()) keeper_.HoldCommits(false);
}

}  // namespace atolld
