#include "daemon/peer/training_figures.h"

#include <utility>

namespace atolld {

void TrainingFigures::OnProgress(const v1::WorkerProgress& progress) {
  const v1::WorkerProgress before = std::exchange(newest_, progress);
  if (progress.step() != 0) return;
  // A new round has no figures yet, so those of the last round are kept.
  if (progress.loss() == 0) newest_.set_loss(before.loss());
  newest_.set_tokens_per_second(before.tokens_per_second());
}

void TrainingFigures::OnBoundary(absl::Time now, uint64_t bytes, const v1::Boundary& boundary) {
  train_seconds_ += boundary.seconds();
  tokens_ += boundary.tokens();
  work_.OnBoundary(now, bytes, boundary.waited_seconds());
  if (boundary.seconds() <= 0) return;
  // In a short round the worker reports no other figure.
  newest_.set_tokens_per_second(static_cast<double>(boundary.tokens()) / boundary.seconds());
}

void TrainingFigures::OnHeldBack() {
  work_.Forget();
  newest_.Clear();
}

void TrainingFigures::Fill(v1::PeerProgress* progress) const {
  progress->set_step(newest_.step());
  progress->set_steps(newest_.steps());
  progress->set_loss(newest_.loss());
  progress->set_tokens_per_second(newest_.tokens_per_second());
  progress->set_train_seconds(train_seconds_);
  progress->set_still_tensors(still_tensors_);
}

}  // namespace atolld
