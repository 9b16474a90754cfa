// What others see of a RoundRunner: its phase, its progress, the samples that it holds.
#include "daemon/peer/round_runner.h"

namespace atolld {

std::vector<v1::SampleRange> RoundRunner::samples() const {
  if (update_) return {update_->ready.samples().begin(), update_->ready.samples().end()};
  if (assigned_) return {assigned_->samples().begin(), assigned_->samples().end()};
  return {};
}

const char* RoundRunner::phase() const {
  if (keeper_.syncing()) return "syncing";
  const bool worker_awaited = trainer_.trains() && !worker_ready_;
  if (worker_awaited || !keeper_.has_state()) return "starting";
  if (exchange_ != nullptr) return "exchanging";
  if (!evaluates_.empty()) return "evaluating";
  if (training_) return "training";
  return "waiting";
}

v1::PeerProgress RoundRunner::progress() const {
  v1::PeerProgress progress;
  progress.set_phase(phase());
  progress.set_version(keeper_.version());
  progress.set_step(newest_progress_.step());
  progress.set_steps(newest_progress_.steps());
  progress.set_loss(newest_progress_.loss());
  progress.set_tokens_per_second(newest_progress_.tokens_per_second());
  progress.set_exchange_bytes_sent(traffic_.sent_bytes);
  progress.set_train_seconds(train_seconds_);
  return progress;
}

}  // namespace atolld
