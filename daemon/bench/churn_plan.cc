#include "daemon/bench/churn_plan.h"

#include <algorithm>
#include <array>
#include <random>
#include <utility>

#include "compression/base/check.h"

namespace atolld {
namespace {

// Draws that are the same with every standard library: its distributions are not.
class Dice {
 public:
  explicit Dice(uint64_t seed) : engine_(seed) {}
  uint32_t Below(uint32_t limit) { return static_cast<uint32_t>(engine_() % limit); }
  double Between(double low, double high) {
    return low + (high - low) * static_cast<double>(engine_() >> 11) * 0x1p-53;
  }

 private:
  std::mt19937_64 engine_;
};

absl::Duration HoldOf(FaultKind kind, absl::Duration failure_timeout, Dice* dice) {
  switch (kind) {
    case FaultKind::kFreezePeer:
    case FaultKind::kBlackHolePeer:
    case FaultKind::kFreezeCoordinator:
      return failure_timeout * dice->Between(1.2, 1.5);  // long enough that it must be noticed
    case FaultKind::kKillPeer:
    case FaultKind::kRestartPeer:
      return absl::Seconds(dice->Between(0.5, 2));  // a supervisor's pause
    case FaultKind::kFreezeWorker:
    case FaultKind::kKillCoordinator:
      return absl::Seconds(dice->Between(0.5, 1));
    case FaultKind::kKillWorker:
      return absl::ZeroDuration();  // its daemon sees to it
  }
  return absl::ZeroDuration();
}

}  // namespace

absl::string_view FaultKindName(FaultKind kind) {
  switch (kind) {
    case FaultKind::kKillPeer:
      return "kill_peer";
    case FaultKind::kFreezePeer:
      return "freeze_peer";
    case FaultKind::kBlackHolePeer:
      return "black_hole_peer";
    case FaultKind::kRestartPeer:
      return "restart_peer";
    case FaultKind::kKillWorker:
      return "kill_worker";
    case FaultKind::kFreezeWorker:
      return "freeze_worker";
    case FaultKind::kKillCoordinator:
      return "kill_coordinator";
    case FaultKind::kFreezeCoordinator:
      return "freeze_coordinator";
  }
  return "";
}

bool OfCoordinator(FaultKind kind) {
  return kind == FaultKind::kKillCoordinator || kind == FaultKind::kFreezeCoordinator;
}

bool OfWorker(FaultKind kind) {
  return kind == FaultKind::kKillWorker || kind == FaultKind::kFreezeWorker;
}

std::vector<PlannedFault> PlanFaults(const ChurnPlanSettings& settings) {
  CHECK(settings.peers >= 2 && settings.every > absl::ZeroDuration());
  Dice dice(settings.seed);
  std::array<FaultKind, kFaultKinds> kinds;
  for (int i = 0; i < kFaultKinds; ++i) kinds[static_cast<size_t>(i)] = static_cast<FaultKind>(i);
  std::vector<PlannedFault> plan;
  const int64_t count = settings.length / settings.every;
  for (int64_t i = 0; i < count; ++i) {
    const auto in_cycle = static_cast<size_t>(i % kFaultKinds);
    if (in_cycle == 0) {
      for (uint32_t left = kFaultKinds; left > 1; --left) {
        std::swap(kinds[left - 1], kinds[dice.Below(left)]);
      }
    }
    PlannedFault fault;
    fault.kind = kinds[in_cycle];
    const bool ends_daemon =
        fault.kind == FaultKind::kKillPeer || fault.kind == FaultKind::kRestartPeer;
    const uint32_t first = ends_daemon ? 2 : 1;
    const uint32_t drawn = first + dice.Below(settings.peers - first + 1);
    fault.peer = OfCoordinator(fault.kind) ? 0 : drawn;
    // Anywhere in a round, and early enough in its span to be over before the next one.
    fault.at = settings.every * (static_cast<double>(i) + dice.Between(0.05, 0.3));
    fault.hold = HoldOf(fault.kind, settings.failure_timeout, &dice);
    plan.push_back(fault);
  }
  return plan;
}

}  // namespace atolld
