#include "daemon/peer/worker_evaluations.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "membership/run/own_evaluation.h"

namespace atolld {
namespace {

// Adds one loss for each party, or none if this peer holds no data out.
void TellOwnLosses(const v1::WorkerEvaluated& evaluated, v1::Evaluated* answer) {
  v1::OwnLoss* const own = answer->mutable_own();
  for (const double loss : evaluated.own_losses()) {
    if (own->losses_size() < kMostOwnLosses) own->add_losses(loss);
  }
  if (own->losses_size() == 0 && evaluated.tokens() > 0) {
    own->add_losses(evaluated.loss_sum() / static_cast<double>(evaluated.tokens()));
  }
}

}  // namespace

void WorkerEvaluations::OnEvaluate(const v1::Evaluate& evaluate, bool worker_ready) {
  if (!keeper_.has_state() || evaluate.version() > keeper_.version()) {
    waiting_.push_back(evaluate);
    return;
  }
  if (!worker_ready || evaluate.version() < keeper_.version()) return;
  if (asked_.empty()) Watch(evaluate.version());
  asked_.push_back(evaluate);
  keeper_.HoldCommits(true);
  v1::DaemonMessage message;
  message.mutable_evaluate()->set_version(evaluate.version());
  message.mutable_evaluate()->set_share(evaluate.share());
  message.mutable_evaluate()->set_shares(evaluate.shares());
  message.mutable_evaluate()->set_own(evaluate.own());
  worker_.Send(message);
}

void WorkerEvaluations::OnMoved(bool worker_ready) {
  for (const v1::Evaluate& evaluate : std::exchange(waiting_, {})) {
    OnEvaluate(evaluate, worker_ready);
  }
}

// Gives the shares up if commits have waited too long. The replica must not fall behind because of
// a slow share: the other peers, which hold the entries that it lacks, may leave meanwhile.
void WorkerEvaluations::Watch(uint64_t version) {
  env_.executor.RunAfter(failure_timeout_, guard_.Wrap([this, version] {
    if (asked_.empty() || asked_.front().version() != version) return;
    if (!keeper_.behind()) return Watch(version);
    env_.log.Info(absl::StrCat("version ", keeper_.version(),
                               ": its evaluation takes too long here and is given up"));
    GiveUp();
  }));
}

void WorkerEvaluations::GiveUp() {
  if (asked_.empty()) return;
  asked_.clear();
  keeper_.HoldCommits(false);
}

void WorkerEvaluations::OnEvaluated(const v1::WorkerEvaluated& evaluated) {
  const auto asked = std::find_if(asked_.begin(), asked_.end(), [&](const v1::Evaluate& evaluate) {
    return evaluate.version() == evaluated.version() && evaluate.share() == evaluated.share() &&
           evaluate.shares() == evaluated.shares() && evaluate.own() == evaluated.own();
  });
  if (asked == asked_.end()) return;
  asked_.erase(asked);
  v1::PeerMessage message;
  v1::Evaluated* answer = message.mutable_evaluated();
  answer->set_version(evaluated.version());
  answer->set_share(evaluated.share());
  answer->set_shares(evaluated.shares());
  answer->set_loss_sum(evaluated.loss_sum());
  answer->set_tokens(evaluated.tokens());
  if (evaluated.own()) TellOwnLosses(evaluated, answer);
  send_(message);
  if (asked_.empty()) keeper_.HoldCommits(false);
}

}  // namespace atolld
