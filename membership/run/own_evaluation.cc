#include "membership/run/own_evaluation.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace atolld {
namespace {

// A peer whose worker ended over it twice is not asked again.
constexpr int kMostTimes = 2;

}  // namespace

double NearestRank(absl::Span<const double> values, double share) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end(),
            [](double a, double b) { return !std::isnan(a) && (std::isnan(b) || a < b); });
  // 0.1 of 10 values is the first one, not the second, although the double 0.1 is slightly more
  // than 0.1.
  constexpr double kRounding = 1e-9;
  const double rank = std::ceil(share * static_cast<double>(sorted.size()) - kRounding);
  return sorted[static_cast<size_t>(std::max(1.0, rank)) - 1];
}

std::optional<v1::Evaluate> OwnEvaluation::Ask(absl::Time now, uint64_t version,
                                               const std::string& peer) {
  Asked& asked = asked_[peer];
  const bool again = asked.times > 0 && !asked.open && losses_.count(peer) == 0;
  if (asked.times > 0 && (!again || asked.times >= kMostTimes)) return std::nullopt;
  ++asked.times;
  asked.open = true;
  asked.given = asked.life = now;
  asked.done = 0;
  v1::Evaluate evaluate;
  evaluate.set_version(version);
  evaluate.set_own(true);
  return evaluate;
}

void OwnEvaluation::TakeBack(const std::string& peer) {
  const auto asked = asked_.find(peer);
  if (asked != asked_.end()) asked->second.open = false;
}

void OwnEvaluation::OnProgress(absl::Time now, const std::string& peer, uint64_t done) {
  const auto found = asked_.find(peer);
  if (found == asked_.end() || !found->second.open) return;
  if (done > 0 && done != found->second.done) found->second.life = now;
  found->second.done = done;
}

std::set<std::string> OwnEvaluation::TakeOverdue(absl::Time now, absl::Duration patience,
                                                 absl::Duration most) {
  std::set<std::string> late;
  for (auto& [peer, asked] : asked_) {
    if (!asked.open || now < std::min(asked.life + patience, asked.given + most)) continue;
    asked.open = false;
    asked.times = kMostTimes;
    late.insert(peer);
  }
  return late;
}

absl::Time OwnEvaluation::Deadline(absl::Duration patience, absl::Duration most) const {
  absl::Time deadline = absl::InfiniteFuture();
  for (const auto& [peer, asked] : asked_) {
    if (asked.open) deadline = std::min({deadline, asked.life + patience, asked.given + most});
  }
  return deadline;
}

std::set<std::string> OwnEvaluation::Holders() const {
  std::set<std::string> holders;
  for (const auto& [peer, asked] : asked_) {
    if (asked.open) holders.insert(peer);
  }
  return holders;
}

std::optional<absl::Duration> OwnEvaluation::OnEvaluated(absl::Time now, const std::string& peer,
                                                         const v1::Evaluated& evaluated) {
  const auto found = asked_.find(peer);
  if (found == asked_.end() || losses_.count(peer) > 0) return std::nullopt;
  found->second.open = false;
  const auto& told = evaluated.own().losses();
  const int count = std::min(told.size(), kMostOwnLosses);
  losses_[peer].assign(told.begin(), told.begin() + count);
  tokens_ += evaluated.tokens();
  return now - found->second.given;
}

void OwnEvaluation::Close() {
  for (auto& [peer, asked] : asked_) asked.open = false;
}

size_t OwnEvaluation::losses() const {
  size_t losses = 0;
  for (const auto& [peer, one] : losses_) losses += one.size();
  return losses;
}

void OwnEvaluation::Show(v1::EvaluationRecord* record) const {
  std::vector<double> all;
  double sum = 0;
  for (const auto& [peer, losses] : losses_) {
    for (const double loss : losses) {
      all.push_back(loss);
      sum += loss;
    }
  }
  record->set_own_parties(static_cast<uint32_t>(all.size()));
  if (all.empty()) return;
  record->set_own_mean(sum / static_cast<double>(all.size()));
  record->set_own_tenth(NearestRank(all, 0.1));
  record->set_own_ninetieth(NearestRank(all, 0.9));
}

}  // namespace atolld
