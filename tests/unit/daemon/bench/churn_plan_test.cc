#include "daemon/bench/churn_plan.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <tuple>

namespace atolld {
namespace {

ChurnPlanSettings Settings(uint64_t seed, absl::Duration length = absl::Minutes(5)) {
  ChurnPlanSettings settings;
  settings.peers = 6;
  settings.seed = seed;
  settings.length = length;
  settings.every = absl::Seconds(15);
  settings.failure_timeout = absl::Seconds(3);
  return settings;
}

// Broken: a seed would not name a benchmark, or all seeds would be the same one.
TEST(ChurnPlan, IsAFunctionOfTheSeed) {
  const auto key = [](const std::vector<PlannedFault>& plan) {
    std::vector<std::tuple<FaultKind, uint32_t, absl::Duration, absl::Duration>> keys;
    for (const PlannedFault& fault : plan) {
      keys.emplace_back(fault.kind, fault.peer, fault.at, fault.hold);
    }
    return keys;
  };
  EXPECT_EQ(key(PlanFaults(Settings(7))), key(PlanFaults(Settings(7))));
  EXPECT_NE(key(PlanFaults(Settings(7))), key(PlanFaults(Settings(8))));
}

// Broken: some kind of fault would hardly ever be tried, and what it breaks would stay unseen.
TEST(ChurnPlan, EveryKindComesOnceInEight) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const std::vector<PlannedFault> plan = PlanFaults(Settings(seed));
    ASSERT_EQ(plan.size(), 20u) << "one every 15 s of 5 min";
    for (size_t cycle = 0; cycle + kFaultKinds <= plan.size(); cycle += kFaultKinds) {
      std::set<FaultKind> kinds;
      for (size_t i = cycle; i < cycle + kFaultKinds; ++i) kinds.insert(plan[i].kind);
      EXPECT_EQ(kinds.size(), size_t{kFaultKinds}) << "seed " << seed;
    }
  }
}

// Broken: a fault would hit nobody or the wrong process, last too short to be noticed, or run into
// the next one.
TEST(ChurnPlan, FaultsFitTheirVictimAndTheirTime) {
  std::map<FaultKind, std::set<uint32_t>> victims;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const ChurnPlanSettings settings = Settings(seed);
    absl::Duration begin;
    for (const PlannedFault& fault : PlanFaults(settings)) {
      victims[fault.kind].insert(fault.peer);
      EXPECT_GE(fault.at, begin);
      EXPECT_LT(fault.at + fault.hold, begin + settings.every);
      begin += settings.every;
      const bool silent = fault.kind == FaultKind::kFreezePeer ||
                          fault.kind == FaultKind::kBlackHolePeer ||
                          fault.kind == FaultKind::kFreezeCoordinator;
      EXPECT_TRUE(!silent || fault.hold > settings.failure_timeout);
    }
  }
  const std::set<uint32_t> all = {1, 2, 3, 4, 5, 6};
  const std::set<uint32_t> all_but_the_first = {2, 3, 4, 5, 6};
  EXPECT_EQ(victims[FaultKind::kFreezePeer], all);
  EXPECT_EQ(victims[FaultKind::kBlackHolePeer], all);
  EXPECT_EQ(victims[FaultKind::kKillWorker], all);
  EXPECT_EQ(victims[FaultKind::kKillPeer], all_but_the_first) << "one daemon lives through";
  EXPECT_EQ(victims[FaultKind::kRestartPeer], all_but_the_first);
  EXPECT_EQ(victims[FaultKind::kKillCoordinator], std::set<uint32_t>{0});
  EXPECT_EQ(victims[FaultKind::kFreezeCoordinator], std::set<uint32_t>{0});
}

}  // namespace
}  // namespace atolld
