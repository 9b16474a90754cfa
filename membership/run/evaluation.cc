#include "membership/run/evaluation.h"

#include <algorithm>

namespace atolld {

Evaluation::Evaluation(uint64_t version, uint32_t shares, double elapsed_seconds)
    : version_(version), elapsed_seconds_(elapsed_seconds), shares_(shares) {}

bool Evaluation::complete() const {
  return std::all_of(shares_.begin(), shares_.end(), [](const Share& share) { return share.in; });
}

std::optional<uint32_t> Evaluation::FirstFree() const {
  for (size_t i = 0; i < shares_.size(); ++i) {
    if (!shares_[i].in && shares_[i].peer.empty()) return static_cast<uint32_t>(i);
  }
  return std::nullopt;
}

v1::Evaluate Evaluation::Give(uint32_t share, const std::string& peer) {
  shares_[share].peer = peer;
  v1::Evaluate evaluate;
  evaluate.set_version(version_);
  evaluate.set_share(share);
  evaluate.set_shares(static_cast<uint32_t>(shares_.size()));
  return evaluate;
}

size_t Evaluation::Open(const std::string& peer) const {
  return static_cast<size_t>(std::count_if(shares_.begin(), shares_.end(), [&](const Share& share) {
    return !share.in && share.peer == peer;
  }));
}

void Evaluation::TakeBack(const std::string& peer) {
  for (Share& share : shares_) {
    if (!share.in && share.peer == peer) share.peer.clear();
  }
}

void Evaluation::OnEvaluated(const v1::Evaluated& evaluated) {
  if (evaluated.version() != version_ || evaluated.shares() != shares_.size() ||
      evaluated.share() >= shares_.size()) {
    return;
  }
  Share& share = shares_[evaluated.share()];
  if (share.in) return;
  share.in = true;
  share.loss_sum = evaluated.loss_sum();
  share.tokens = evaluated.tokens();
}

v1::EvaluationRecord Evaluation::Record() const {
  double loss_sum = 0;
  uint64_t tokens = 0;
  // In order of the shares, so that the sum does not depend on who answered first.
  for (const Share& share : shares_) {
    loss_sum += share.loss_sum;
    tokens += share.tokens;
  }
  v1::EvaluationRecord record;
  record.set_version(version_);
  record.set_loss(tokens == 0 ? 0 : loss_sum / static_cast<double>(tokens));
  record.set_tokens(tokens);
  record.set_elapsed_seconds(elapsed_seconds_);
  return record;
}

bool EvaluationDue(const v1::RunSpec& spec, uint64_t version, uint64_t last) {
  if (version == 0 || version == last) return true;
  const uint32_t every = spec.evaluation().every_rounds();
  return every > 0 && version % every == 0;
}

}  // namespace atolld
