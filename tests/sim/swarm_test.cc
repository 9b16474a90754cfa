// The simulator itself: a seed decides everything, and draws what it should.
#include "tests/sim/swarm.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "compression/wire_codec.h"

namespace atolld {
namespace {

// If this failed, the line that a violation prints would not repeat it.
TEST(SwarmTest, OneSeedOneHistory) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    const SwarmResult first = Swarm(DrawPlan(seed)).Run();
    std::string story;
    const SwarmResult second =
        Swarm(DrawPlan(seed), [&](const std::string& lines) { story += lines; }).Run();
    EXPECT_FALSE(story.empty());
    EXPECT_EQ(first.digest, second.digest) << "seed " << seed;
    EXPECT_EQ(first.events, second.events) << "seed " << seed;
    EXPECT_FALSE(first.violation) << "seed " << seed << ": " << first.violation->what;
  }
}

// If this failed, some kind of cluster or fault would never be tried.
TEST(SwarmTest, SeedsDrawEverything) {
  std::set<FaultKind> kinds;
  std::set<size_t> sizes;
  std::set<std::string> codecs;
  std::set<std::string> upper_codecs;
  int levels = 0;
  std::set<Outsider> outsiders;
  int without_faults = 0;
  int feedback = 0;
  int stochastic = 0;
  int late = 0;
  int aggregators = 0;
  int behind_nat = 0;
  int unequal_lines = 0;
  std::set<std::string> plans;
  std::set<Hostility> hostile;
  for (uint64_t seed = 0; seed < 500; ++seed) {
    const SwarmPlan plan = DrawPlan(seed);
    size_t trainers = 0;
    for (const SwarmPlan::Machine& peer : plan.peers) trainers += peer.aggregator ? 0 : 1;
    sizes.insert(trainers);
    aggregators += trainers < plan.peers.size() ? 1 : 0;
    plans.insert(plan.plan);
    codecs.insert(plan.codec);
    upper_codecs.insert(plan.upper_codec);
    levels += plan.upper_codec.empty() ? 0 : 1;
    feedback += plan.error_feedback ? 1 : 0;
    stochastic += plan.stochastic ? 1 : 0;
    without_faults += plan.faults.empty() ? 1 : 0;
    late += plan.founders < trainers ? 1 : 0;
    for (const PlannedFault& fault : plan.faults) kinds.insert(fault.kind);
    for (const PlannedFault& fault : DrawPlan(seed, "", "etcd").faults) kinds.insert(fault.kind);
    bool dials_out = false;
    bool slow = false;
    for (const SwarmPlan::Machine& peer : plan.peers) {
      outsiders.insert(peer.outsider);
      hostile.insert(peer.hostility);
      dials_out = dials_out || peer.dial_out;
      slow = slow || peer.bytes_per_second > 0;
    }
    behind_nat += dials_out ? 1 : 0;
    unequal_lines += slow ? 1 : 0;
    EXPECT_GE(plan.rounds, 20u);
    EXPECT_LE(plan.rounds, 200u);
    EXPECT_GE(plan.elements, 64u);
    EXPECT_LE(plan.elements, 4096u);
    EXPECT_GE(plan.founders, plan.quorum) << "seed " << seed;
    EXPECT_LE(plan.quorum, plan.peers.size()) << "seed " << seed;
  }
  EXPECT_EQ(kinds.size(), static_cast<size_t>(kFaultKinds));
  EXPECT_EQ(*sizes.begin(), 2u);
  EXPECT_EQ(*sizes.rbegin(), 16u);
  EXPECT_EQ(codecs.size(), WireCodecNames().size()) << "each codec with and without zstd";
  EXPECT_EQ(upper_codecs.size(), WireCodecNames().size() + 1) << "and none";
  EXPECT_GT(levels, 100);
  EXPECT_GT(feedback, 100);
  EXPECT_LT(feedback, 400);
  EXPECT_GT(stochastic, 20);
  EXPECT_EQ(outsiders.size(), 5u);
  EXPECT_GT(without_faults, 10);
  EXPECT_GT(late, 50);
  EXPECT_GT(aggregators, 20);
  EXPECT_GT(behind_nat, 50);
  EXPECT_GT(unequal_lines, 100);
  EXPECT_EQ(hostile.size(), 12u) << "each kind, and none";
  EXPECT_EQ(plans, (std::set<std::string>{"auto", "flat", "regions"}));
}

// If this failed, runs of parties would not be tried, or would need votes that no peer casts.
TEST(SwarmTest, SomeRunsAreOfParties) {
  int private_data = 0, drawn = 0, dropped = 0;
  for (uint64_t seed = 0; seed < 500; ++seed) {
    const SwarmPlan plan = DrawPlan(seed);
    private_data += plan.private_data ? 1 : 0;
    drawn += plan.participation < 1 ? 1 : 0;
    dropped += plan.drop > 0 ? 1 : 0;
    EXPECT_GE(LeastQuorum(plan), 1u);
    EXPECT_LE(LeastQuorum(plan), plan.quorum);
  }
  EXPECT_GT(private_data, 80);
  EXPECT_GT(drawn, 10);
  EXPECT_GT(dropped, 10);
}

// If this failed, overlapping rounds would not be tried, or would be combined with what they
// exclude.
TEST(SwarmTest, SomeRunsHaveAPipeline) {
  std::map<std::string, int> modes;
  int with_faults = 0, overlaps = 0;
  for (uint64_t seed = 0; seed < 500; ++seed) {
    const SwarmPlan plan = DrawPlan(seed);
    ++modes[plan.mode];
    if (plan.mode == "sync" || plan.mode == "async") continue;
    with_faults += plan.faults.empty() ? 0 : 1;
    EXPECT_FALSE(plan.masked) << "seed " << seed;
    EXPECT_FALSE(plan.control_variates) << "seed " << seed;
    EXPECT_EQ(plan.participation, 1) << "seed " << seed;
    EXPECT_EQ(plan.drop, 0) << "seed " << seed;
    EXPECT_LE(plan.overlap, plan.inner_steps) << "seed " << seed;
    EXPECT_EQ(plan.fragments > 0, plan.mode == "streaming") << "seed " << seed;
    overlaps += plan.overlap > 0 && plan.fragments > 1 ? 1 : 0;
  }
  EXPECT_EQ(modes.size(), SwarmModes().size());
  EXPECT_GT(modes["sync"], 120);
  EXPECT_GT(modes["eager"], 20);
  EXPECT_GT(overlaps, 5) << "fragments beside a pipeline";
  EXPECT_GT(modes["delayed"], 40);
  EXPECT_GT(modes["streaming"], 40);
  EXPECT_GT(with_faults, 80);
}

// If this failed, a thousand seeds of one mode would be of another, or have what it excludes.
TEST(SwarmTest, AllRunsMayBeOfOneMode) {
  for (const std::string& mode : SwarmModes()) {
    int masked = 0;
    for (uint64_t seed = 0; seed < 200; ++seed) {
      const SwarmPlan plan = DrawPlan(seed, mode);
      ASSERT_EQ(plan.mode, mode) << "seed " << seed;
      masked += plan.masked ? 1 : 0;
      if (mode == "sync") continue;
      EXPECT_FALSE(plan.masked || plan.control_variates) << mode << seed;
      EXPECT_EQ(plan.participation, 1) << mode << seed;
      EXPECT_EQ(plan.drop, 0) << mode << seed;
      EXPECT_EQ(plan.fragments > 0, mode == "streaming") << seed;
      EXPECT_TRUE(plan.fragments <= 1 || plan.rule != "delayed_nesterov") << seed;
    }
    EXPECT_EQ(masked > 0, mode == "sync");
  }
}

// If this failed, several coordinators would not be tried, or would change the rest of a run's
// plan.
TEST(SwarmTest, RunsMayHaveSeveralCoordinators) {
  std::set<uint32_t> counts;
  int of_leader = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const SwarmPlan alone = DrawPlan(seed);
    const SwarmPlan plan = DrawPlan(seed, "", "etcd");
    EXPECT_EQ(alone.coordinators, 1u);
    EXPECT_EQ(alone.rounds, plan.rounds);
    EXPECT_EQ(alone.codec, plan.codec);
    counts.insert(plan.coordinators);
    for (const PlannedFault& fault : alone.faults) EXPECT_LT(fault.kind, FaultKind::kKillStandby);
    for (const PlannedFault& fault : plan.faults) {
      EXPECT_NE(fault.kind, FaultKind::kStoreRestored) << "seed " << seed;
      EXPECT_NE(fault.kind, FaultKind::kStoreFull) << "seed " << seed;
      of_leader += fault.kind == FaultKind::kKillCoordinator ||
                           fault.kind == FaultKind::kPauseCoordinator ||
                           fault.kind >= FaultKind::kKillStandby
                       ? 1
                       : 0;
    }
  }
  EXPECT_EQ(counts, (std::set<uint32_t>{2, 3}));
  EXPECT_GT(of_leader, 300);
}

// If this failed, guesses would not be judged, or only those that rest on one entry.
TEST(SwarmTest, GuessesAreJudged) {
  uint64_t guesses = 0, refreshed = 0;
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    SwarmPlan plan = DrawPlan(seed, "eager");
    plan.faults.clear();
    const SwarmResult result = Swarm(plan).Run();
    EXPECT_FALSE(result.violation) << "seed " << seed << ": " << result.violation->what;
    guesses += result.guesses;
    refreshed += result.refreshed;
  }
  EXPECT_GT(refreshed, 100u);
  EXPECT_GE(guesses, refreshed);
}

// If this failed, updates in the codec of slow lines would not be judged beside others.
TEST(SwarmTest, SomePeersSendInTheCodecOfSlowLines) {
  uint64_t slow = 0, runs = 0;
  for (uint64_t seed = 1; slow < 20; ++seed) {
    ASSERT_LT(seed, 200u) << slow;
    const SwarmPlan plan = DrawPlan(seed);
    const bool told = std::any_of(plan.peers.begin(), plan.peers.end(),
                                  [](const auto& peer) { return peer.tells_limit; });
    if (plan.slow_codec.empty() || !told || plan.masked) continue;
    const SwarmResult result = Swarm(plan).Run();
    EXPECT_FALSE(result.violation) << "seed " << seed << ": " << result.violation->what;
    slow += result.slow_updates;
    ++runs;
  }
  EXPECT_LT(runs, 20u);
}

// If this failed, lines that fail in part would not be judged, or would be drawn in runs that
// cannot continue with them.
TEST(SwarmTest, SomeRunsHaveLinesThatFailInPart) {
  std::map<FaultKind, int> kinds;
  int judged = 0, from_the_start = 0, stay = 0, with_faults = 0;
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    const SwarmPlan plan = DrawPlan(seed);
    if (plan.grey.empty()) continue;
    ++judged;
    stay += plan.grey_stays ? 1 : 0;
    with_faults += plan.faults.empty() ? 0 : 1;
    std::set<int> touched;
    uint64_t before = 0;
    for (const PlannedFault& line : plan.grey) {
      ++kinds[line.kind];
      EXPECT_TRUE(line.stays);
      EXPECT_GE(line.after_commits, before) << "seed " << seed;
      before = line.after_commits;
      from_the_start += line.after_commits == 0 ? 1 : 0;
      touched.insert(line.victim);
      if (line.kind != FaultKind::kHiddenAddress && line.kind != FaultKind::kSmallPackets) {
        touched.insert(line.other);
      }
    }
    bool reducer = false;
    for (size_t i = 0; i < plan.peers.size(); ++i) {
      const SwarmPlan::Machine& peer = plan.peers[i];
      EXPECT_EQ(peer.hostility, Hostility::kNone) << "seed " << seed;
      if (peer.dial_out || peer.joins_at != 0) continue;
      reducer = reducer || touched.count(static_cast<int>(i)) == 0;
    }
    EXPECT_TRUE(reducer) << "seed " << seed;
  }
  EXPECT_EQ(kinds.size(), 4u);
  EXPECT_GT(judged, 25);
  EXPECT_GT(from_the_start, 20);
  EXPECT_GT(stay, 10);
  EXPECT_GT(with_faults, 20);
}

// If this failed, the ownership of experts would not be tried, or would be combined with what it
// excludes.
TEST(SwarmTest, SomeRunsOwnExperts) {
  std::set<uint32_t> experts, owners;
  int drawn = 0, sync = 0, with_faults = 0, slices = 0;
  for (uint64_t seed = 0; seed < 500; ++seed) {
    const SwarmPlan plan = DrawPlan(seed);
    sync += plan.mode == "sync" ? 1 : 0;
    EXPECT_EQ(plan.experts > 0, plan.owners > 0 || plan.slices) << "seed " << seed;
    if (plan.experts == 0) continue;
    ++drawn;
    slices += plan.slices ? 1 : 0;
    experts.insert(plan.experts);
    if (!plan.slices) owners.insert(plan.owners);
    with_faults += plan.faults.empty() ? 0 : 1;
    EXPECT_EQ(plan.mode, "sync") << "seed " << seed;
    EXPECT_EQ(plan.aggregation, "mean") << "seed " << seed;
    EXPECT_EQ(plan.plan, "flat") << "seed " << seed;
    EXPECT_EQ(plan.participation, 1) << "seed " << seed;
    EXPECT_EQ(plan.drop, 0) << "seed " << seed;
    EXPECT_FALSE(plan.masked || plan.moving_clip || plan.control_variates) << "seed " << seed;
    EXPECT_GE(plan.chunk_elements, 16u) << "seed " << seed;
  }
  EXPECT_EQ(experts, (std::set<uint32_t>{2, 3, 4, 5, 6}));
  EXPECT_EQ(owners, (std::set<uint32_t>{1, 2, 3}));
  EXPECT_GT(slices, drawn / 10);
  EXPECT_LT(slices, drawn / 2);
  EXPECT_GT(drawn, sync / 10);
  EXPECT_LT(drawn, sync / 2);
  EXPECT_GT(with_faults, drawn / 2);
}

// If this failed, masks would not be tried, or would be combined with what they exclude.
TEST(SwarmTest, SomeRunsHaveMasks) {
  int masked = 0, with_faults = 0, above_quorum = 0, in_unmasking = 0;
  for (uint64_t seed = 0; seed < 500; ++seed) {
    const SwarmPlan plan = DrawPlan(seed);
    if (!plan.masked) continue;
    ++masked;
    with_faults += plan.faults.empty() ? 0 : 1;
    EXPECT_TRUE(plan.private_data);
    EXPECT_EQ(plan.aggregation, "mean");
    EXPECT_EQ(plan.clip, 0);
    EXPECT_EQ(plan.audit_share, 0);
    EXPECT_FALSE(plan.error_feedback);
    EXPECT_GE(plan.quorum, 3u);
    EXPECT_LE(plan.quorum, plan.founders) << "seed " << seed;
    EXPECT_LE(plan.mask_threshold, plan.quorum);
    EXPECT_TRUE(ParseLevels(plan.codec, plan.upper_codec).ok()) << "seed " << seed;
    size_t core = 0;
    for (const SwarmPlan::Machine& peer : plan.peers) {
      core += peer.core ? 1 : 0;
      EXPECT_EQ(peer.habit, SimWorker::Habit::kNone);
      EXPECT_EQ(peer.hostility, Hostility::kNone);
    }
    EXPECT_GE(core, plan.quorum) << "seed " << seed;
    EXPECT_GE(plan.mask_roster, 3u);
    EXPECT_LE(plan.mask_roster, core) << "seed " << seed;
    above_quorum += plan.mask_roster > plan.quorum ? 1 : 0;
    in_unmasking += !plan.faults.empty() && plan.faults.front().in_unmasking ? 1 : 0;
  }
  EXPECT_GT(masked, 10);
  EXPECT_GT(with_faults, 8);
  EXPECT_GT(above_quorum, 0) << "else it would not matter";
  EXPECT_EQ(in_unmasking, with_faults);
}

// If this failed, no peer would claim lengths that it was not told, or other settings would hide
// the claim.
TEST(SwarmTest, SomeClipsFollowTheUpdates) {
  int moving = 0, claimed = 0;
  for (uint64_t seed = 0; seed < 500; ++seed) {
    const SwarmPlan plan = DrawPlan(seed);
    if (!plan.moving_clip) continue;
    ++moving;
    EXPECT_TRUE(plan.private_data && plan.mode == "sync" && !plan.masked) << "seed " << seed;
    EXPECT_EQ(plan.clip, 0);
    EXPECT_FALSE(plan.error_feedback || plan.control_variates);
    for (const SwarmPlan::Machine& peer : plan.peers) claimed += peer.claims_clips ? 1 : 0;
    for (const PlannedFault& fault : plan.faults) {
      EXPECT_NE(fault.kind, FaultKind::kHugeUpdate) << "seed " << seed;
    }
  }
  EXPECT_GT(moving, 8);
  EXPECT_GT(claimed, 4);
}

// If this failed, a name would be printed for another kind, or for no kind.
TEST(SwarmTest, FaultsHaveNames) {
  std::set<absl::string_view> names;
  for (int kind = 0; kind < kFaultKinds; ++kind) {
    names.insert(FaultName(static_cast<FaultKind>(kind)));
  }
  EXPECT_EQ(names.size(), static_cast<size_t>(kFaultKinds));
  EXPECT_EQ(names.count(""), 0u);
  EXPECT_EQ(FaultName(FaultKind::kDrain), "drain");
  EXPECT_EQ(FaultName(FaultKind::kStoreRestored), "store-restored");
}

}  // namespace
}  // namespace atolld
