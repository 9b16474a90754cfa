#include "daemon/bench/churn_faults.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <tuple>

#include "absl/strings/str_cat.h"

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

// -----------------------------------------------------------------------------------------------

namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

absl::Time TimeOf(double seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }

LogLine Line(double seconds, const std::string& text) { return {TimeOf(seconds), text}; }

LandedFault Fault(FaultKind kind, const std::string& victim, double at, double healed) {
  LandedFault fault;
  fault.planned.kind = kind;
  fault.victim = victim;
  fault.at = TimeOf(at);
  fault.healed = TimeOf(healed);
  return fault;
}

// Three peers, a commit a second from 1 s to 20 s but for what a test changes.
ChurnTrace Trace() {
  ChurnTrace trace;
  trace.peers = {"peer-1", "peer-2", "peer-3"};
  for (int i = 1; i <= 20; ++i) {
    trace.commits.push_back({TimeOf(i), static_cast<uint64_t>(i), {"peer-1", "peer-2", "peer-3"}});
  }
  return trace;
}

// Broken: a log could not be read, or what workers and libraries write would be taken for its
// lines.
TEST(ChurnTrace, LogsAreLinesWithTimes) {
  const std::vector<LogLine> lines = ParseLog(
      "2026-03-01T12:00:00.123Z info round 12: committed by peer-1, peer-2\n"
      "terminate called\n"
      "\n"
      "2026-03-01T12:00:01.000Z warning peer p3 is dead\n"
      "2026-03-01 12:00:01 not ours\n");
  ASSERT_THAT(lines, SizeIs(2));
  EXPECT_EQ(lines[0].text, "round 12: committed by peer-1, peer-2");
  EXPECT_EQ(lines[1].text, "peer p3 is dead");
  EXPECT_EQ(lines[1].at - lines[0].at, absl::Milliseconds(877));
  const std::vector<Commit> commits = CommitsOf(lines);
  ASSERT_THAT(commits, SizeIs(1));
  EXPECT_EQ(commits[0].version, 12u);
  EXPECT_THAT(commits[0].contributors, ElementsAre("peer-1", "peer-2"));
}

// Broken: a death would count as detected when the first peer knows, or not every one.
TEST(ChurnTrace, DetectedMeansKnownToEverySurvivor) {
  ChurnTrace trace = Trace();
  trace.faults = {Fault(FaultKind::kKillPeer, "peer-2", 5, 6),
                  Fault(FaultKind::kFreezePeer, "peer-2", 12, 16)};
  trace.logs["peer-1"] = {Line(1, "peer peer-2 is dead"), Line(5.125, "peer peer-2 is suspect"),
                          Line(5.25, "peer peer-2 is dead")};
  trace.logs["peer-3"] = {Line(5.5, "peer peer-2 is dead"), Line(15, "peer peer-2 is dead")};
  EXPECT_EQ(SecondsToDetect(trace, 0), 0.5);
  EXPECT_EQ(SecondsToDetect(trace, 1), std::nullopt) << "peer-1 never learned of it";
  trace.logs["peer-1"].push_back(Line(14.5, "peer peer-2 is dead"));
  EXPECT_EQ(SecondsToDetect(trace, 1), 3.0);
  trace.logs["peer-3"].clear();
  trace.logs["peer-3"].push_back(Line(15, "peer peer-2 is dead"));
  EXPECT_EQ(SecondsToDetect(trace, 0), std::nullopt) << "that was the next fault's";
}

// Broken: what tells of a coordinator's or a worker's death would not be found.
TEST(ChurnTrace, OtherKindsAreDetectedByTheirOwnWords) {
  ChurnTrace trace = Trace();
  trace.faults = {Fault(FaultKind::kKillCoordinator, "coordinator", 5, 6),
                  Fault(FaultKind::kKillWorker, "peer-3", 8.0004, 8.0004),
                  Fault(FaultKind::kFreezeWorker, "peer-3", 10, 11),
                  Fault(FaultKind::kRestartPeer, "peer-3", 13, 14)};
  for (const std::string& peer : trace.peers) {
    trace.logs[peer] = {Line(5.25, "lost the coordinator at 127.0.0.1:1 (Socket closed); ...")};
  }
  // Logs cut their times to milliseconds: this line came after the signal.
  trace.logs["peer-3"].push_back(Line(8, "the worker is gone (killed by signal 9 (Killed)); ..."));
  EXPECT_EQ(SecondsToDetect(trace, 0), 0.25);
  EXPECT_EQ(SecondsToDetect(trace, 1), 0.0);
  EXPECT_EQ(SecondsToDetect(trace, 2), std::nullopt);
  EXPECT_EQ(SecondsToDetect(trace, 3), std::nullopt);
  EXPECT_FALSE(IsDetectable(FaultKind::kFreezeWorker));
  EXPECT_FALSE(IsDetectable(FaultKind::kRestartPeer));
}

// Broken: a peer would count as back when its process runs, not when it takes part.
TEST(ChurnTrace, RejoinedMeansPartOfACommit) {
  ChurnTrace trace = Trace();
  trace.faults = {Fault(FaultKind::kKillPeer, "peer-2", 5.5, 7.25)};
  for (Commit& commit : trace.commits) {
    if (commit.version >= 6 && commit.version <= 9) commit.contributors = {"peer-1", "peer-3"};
  }
  EXPECT_EQ(SecondsToRejoin(trace, 0), 2.75);  // in round 10
  trace.faults = {Fault(FaultKind::kKillCoordinator, "coordinator", 5.5, 7.25)};
  EXPECT_EQ(SecondsToRejoin(trace, 0), 0.75);
  trace.faults = {Fault(FaultKind::kKillPeer, "peer-2", 20.5, 21)};
  EXPECT_EQ(SecondsToRejoin(trace, 0), std::nullopt);
  // What a worker had handed over before its death is no sign of a new one.
  trace.faults = {Fault(FaultKind::kKillWorker, "peer-1", 5.5, 5.5)};
  trace.logs["peer-1"] = {Line(6.5, "worker on stub: 5 parameters, ...")};
  EXPECT_EQ(SecondsToRejoin(trace, 0), 1.5);
}

// Broken: a round that a death held up would not be seen, or a lost line of the log taken for one.
TEST(ChurnTrace, DelayIsOfTheRoundUnderWayOrTheNext) {
  ChurnTrace trace = Trace();
  trace.faults = {Fault(FaultKind::kKillPeer, "peer-2", 5.5, 6)};
  EXPECT_EQ(RoundDelay(trace, 0, 1.0), 0.0);
  trace.commits[5].at = TimeOf(6.25);
  EXPECT_EQ(RoundDelay(trace, 0, 1.0), 0.25);
  for (size_t i = 6; i < trace.commits.size(); ++i) trace.commits[i].at += absl::Seconds(2);
  EXPECT_EQ(RoundDelay(trace, 0, 1.0), 1.75);  // round 7 took from 6.25 to 9
  trace.commits.erase(trace.commits.begin() + 5);
  EXPECT_EQ(RoundDelay(trace, 0, 1.0), 2.0);  // two rounds from 5 to 9
  EXPECT_EQ(MedianRoundSeconds(Trace().commits), 1.0);
  EXPECT_EQ(MedianRoundSeconds({}), 0.0);
}

// Broken: work that a commit has would count as lost, or lost work would not.
TEST(ChurnTrace, WorkIsLostUnlessTheNextCommitHasIt) {
  ChurnTrace trace = Trace();
  LandedFault fault = Fault(FaultKind::kKillPeer, "peer-2", 5.5, 6);
  fault.steps_at_stake = 50;
  fault.handed_over = true;
  trace.faults = {fault};
  EXPECT_EQ(LostSteps(trace, 0), 0u);
  trace.commits[5].contributors = {"peer-1", "peer-3"};
  EXPECT_EQ(LostSteps(trace, 0), 50u);
  trace.faults[0].handed_over = false;
  trace.faults[0].steps_at_stake = 20;
  EXPECT_EQ(LostSteps(trace, 0), 20u);
  EXPECT_EQ(CountTrainedAnew({Line(1,
                                   "round 3: peer p trained on samples that are no longer its "
                                   "own; it trains anew"),
                              Line(2, "round 3: committed by p")}),
            1u);
}

// Broken: a run under faults would be compared with one that has seen more data.
TEST(ChurnTrace, LossesAreComparedAtEqualTokens) {
  const std::vector<LossPoint> points = {{0, 6}, {100, 4}, {300, 3}};
  EXPECT_EQ(LossAt(points, 0), 6.0);
  EXPECT_EQ(LossAt(points, 50), 5.0);
  EXPECT_EQ(LossAt(points, 100), 4.0);
  EXPECT_EQ(LossAt(points, 250), 3.25);
  EXPECT_EQ(LossAt(points, 300), 3.0);
  EXPECT_EQ(LossAt(points, 301), std::nullopt);
  EXPECT_EQ(LossAt({{10, 6}, {20, 5}}, 9), std::nullopt);
  EXPECT_EQ(LossAt({}, 0), std::nullopt);
}

// Broken: percentiles would be interpolated away from what was seen, or means ignore time.
TEST(ChurnTrace, PercentilesAndMeans) {
  EXPECT_EQ(Percentile({}, 0.5), std::nullopt);
  EXPECT_EQ(Percentile({3, 1, 2}, 0.5), 2.0);
  EXPECT_EQ(Percentile({4, 1, 3, 2}, 0.5), 2.0);
  std::vector<double> hundred;
  for (int i = 100; i >= 1; --i) hundred.push_back(i);
  EXPECT_EQ(Percentile(hundred, 0.95), 95.0);
  EXPECT_EQ(Percentile({7}, 0.95), 7.0);
  MeanOverTime mean;
  EXPECT_EQ(mean.mean(), 0);
  mean.Add(TimeOf(0), 1);
  mean.Add(TimeOf(3), 1);
  mean.Add(TimeOf(4), 0);  // over the last second
  EXPECT_EQ(mean.mean(), 0.75);
}

}  // namespace

}  // namespace atolld
