#include "daemon/peer/partner_waker.h"

#include <optional>

namespace atolld {
namespace {

constexpr absl::Duration kAhead = absl::Milliseconds(500);  // of the end of training
constexpr absl::Duration kEvery = absl::Seconds(2);         // BBR calls old what is 10 s old
constexpr int kMostWaited = 30;                             // times kEvery

// Of the values of the exchange, a byte each, one waking of all partners sends at most this.
constexpr double kMostShare = 1.0 / 64;

}  // namespace

void PartnerWaker::OnPlan(const ExchangePlan& plan, uint64_t values, const std::string& self,
                          uint32_t lanes) {
  phase_ = Phase::kExchanging;
  lanes_ = lanes;
  addresses_.clear();
  const std::optional<uint32_t> index = plan.IndexOf(self);
  for (const ExchangePlan::Shard& shard : plan.shards()) {
    if (shard.chunks == 0) continue;
    addresses_.insert(plan.AddressOf(plan.SourceOf(shard, self)));
    if (index) addresses_.insert(plan.AddressOf(plan.TargetOf(shard, *index)));
  }
  addresses_.erase("");
  if (addresses_.empty()) return;
  bytes_ = static_cast<size_t>(kMostShare * static_cast<double>(values)) / addresses_.size();
}

void PartnerWaker::OnTraining() {
  phase_ = Phase::kTraining;
  began_ = env_.executor.Now();
}

void PartnerWaker::OnProgress(const v1::WorkerProgress& progress) {
  if (phase_ != Phase::kTraining || progress.step() == 0 || progress.step() > progress.steps()) {
    return;
  }
  const absl::Duration step = (env_.executor.Now() - began_) / progress.step();
  if (step * (progress.steps() - progress.step()) <= kAhead) Wake();
}

void PartnerWaker::OnWaiting() {
  if (phase_ == Phase::kWaiting) return;
  phase_ = Phase::kWaiting;
  waited_ = 0;
  env_.executor.Cancel(timer_);
  WakeWhileWaiting();
}

void PartnerWaker::WakeWhileWaiting() {
  if (phase_ != Phase::kWaiting || ++waited_ > kMostWaited) return;
  Wake();
  timer_ = env_.executor.RunAfter(kEvery, guard_.Wrap([this] { WakeWhileWaiting(); }));
}

void PartnerWaker::Wake() {
  const absl::Time now = env_.executor.Now();
  if (now - woken_ < kEvery) return;
  woken_ = now;
  for (const std::string& address : addresses_) calls_.Wake(address, lanes_, bytes_ / lanes_);
}

}  // namespace atolld
