// Whole runs in a simulated world: the production coordinator, peers, exchange and logs under
// deaths.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "compression/wire_codec.h"
#include "membership/run/utilisation.h"
#include "tests/sim/sealed.h"
#include "tests/sim/sim_cluster.h"

namespace atolld {
namespace {

// If this failed, three healthy peers could not finish a run with equal replicas.
TEST(SimRunTest, HealthyRunSealsWithEqualReplicas) {
  SimCluster cluster(1, {});
  ASSERT_TRUE(cluster.RunToSeal()) << cluster.world().LogText();
  ExpectSealedEqual(cluster, 3, 10);
  const auto& evaluations = cluster.stored().evaluations;
  ASSERT_GE(evaluations.size(), 4u);
  const double first = evaluations.front().loss();
  const double last = evaluations.back().loss();
  EXPECT_LT(last, first / 4) << "the outer steps lead away from the target";
  EXPECT_EQ(cluster.world().LogCount(" E "), 0u);
}

// If this failed, the gradient noise scale would not be that of the updates that peers hand over:
// some length on the way from worker to coordinator would be wrong.
TEST(SimRunTest, TheNoiseThatTrainersAddIsMeasured) {
  SimClusterSettings settings;
  settings.codec = "fp32";
  SimCluster cluster(2, settings);
  ASSERT_TRUE(cluster.RunToSeal()) << cluster.world().LogText();
  const auto& rounds = cluster.stored().rounds;
  ASSERT_EQ(rounds.size(), 10u);
  const double elements = static_cast<double>(settings.elements);
  for (const v1::RoundRecord& round : rounds) {
    ASSERT_EQ(round.contributors(), 3u);
    // Of each value 0.01 x what is uniform over [-0.5, 0.5), whatever the tokens.
    const double noise = round.gradient_noise() / (static_cast<double>(round.tokens()) / 3);
    EXPECT_NEAR(noise / (elements * 1e-4 / 12), 1, 0.08) << round.version();
    EXPECT_GT(round.noise_scale(), 0) << round.version();
  }
  // 0.3 x the difference of two uniform values, the second four times as wide.
  EXPECT_NEAR(rounds[0].squared_gradient() / (0.09 * elements * 17 / 12), 1, 0.05);
}

// If this failed, the reported utilisation would not match the time that passes: a peer would count
// some of it twice, or not at all; or bytes for which a peer waits would count as hidden.
TEST(SimRunTest, TrainingAndWaitingAreAllOfTheTime) {
  SimCluster cluster(1, {});
  ASSERT_TRUE(cluster.RunToSeal()) << cluster.world().LogText();
  const auto& rounds = cluster.stored().rounds;
  ASSERT_EQ(rounds.size(), 10u);
  EXPECT_FALSE(rounds[0].has_utilisation()) << "nothing was before the first update";
  double told = 0;
  v1::Utilisation sum;
  for (size_t i = 1; i < rounds.size(); ++i) {
    ASSERT_TRUE(rounds[i].has_utilisation()) << rounds[i].version();
    const v1::Utilisation& one = rounds[i].utilisation();
    EXPECT_NEAR(one.train_seconds(), rounds[i].train_seconds() * rounds[i].contributors(), 1e-9);
    told += (one.train_seconds() + one.waited_seconds()) / rounds[i].contributors();
    AddUtilisation(one, &sum);
  }
  const double passed = rounds.back().elapsed_seconds() - rounds.front().elapsed_seconds();
  EXPECT_NEAR(told / passed, 1, 0.15);
  EXPECT_GT(sum.waited_bytes(), 0u);
  EXPECT_LT(sum.hidden_bytes(), sum.waited_bytes() / 2) << "all wait while they exchange";
}

// If this failed, a peer behind NAT could not contribute, or other peers would have to dial it.
TEST(SimRunTest, PeersThatNobodyCanDialContributeInEveryRound) {
  SimClusterSettings settings;
  settings.dial_out = {"p1", "p3"};
  SimCluster cluster(3, settings);
  ASSERT_TRUE(cluster.RunToSeal()) << cluster.world().LogText();
  ExpectSealedEqual(cluster, 3, 10);
  for (const v1::EntryHeader& header : cluster.stored().headers) {
    EXPECT_EQ(header.contributors_size(), 3);
    for (const v1::ShardRecord& shard : header.records().shards()) EXPECT_EQ(shard.reducer(), "p2");
  }
  EXPECT_EQ(cluster.world().LogCount(" E "), 0u);
}

// If this failed, a crowd behind NAT could not train, or its aggregator would count as a member of
// it; or version 0 would stay where it was made.
TEST(SimRunTest, AnAggregatorReducesForACrowdThatNobodyCanDial) {
  SimClusterSettings settings;
  settings.dial_out = {"p1", "p2", "p3"};
  settings.aggregators = {"x1"};
  SimCluster cluster(5, settings);
  ASSERT_TRUE(cluster.RunToSeal()) << cluster.world().LogText();
  ExpectSealedEqual(cluster, 3, 10);
  const absl::StatusOr<VerifyReport> held = cluster.Verify("x1");
  ASSERT_TRUE(held.ok()) << held.status();
  EXPECT_EQ(held->state_digest, cluster.Verify("p1")->state_digest);
  for (const v1::EntryHeader& header : cluster.stored().headers) {
    EXPECT_EQ(header.contributors_size(), 3);
    for (const v1::ShardRecord& shard : header.records().shards()) EXPECT_EQ(shard.reducer(), "x1");
  }
  EXPECT_EQ(cluster.world().LogCount(" E "), 0u);
}

// If this failed, an aggregator that lost its disk could not get the state back from peers that
// cannot be dialled, and the run would be over.
TEST(SimRunTest, AnAggregatorWithAnEmptyDiskIsGivenTheStateByThoseThatDialIt) {
  SimClusterSettings settings;
  settings.dial_out = {"p1", "p2", "p3"};
  settings.aggregators = {"x1"};
  settings.rounds = 12;
  SimCluster cluster(6, settings);
  ASSERT_TRUE(cluster.RunToVersion(5)) << cluster.world().LogText();
  cluster.world().Kill("x1");
  cluster.world().disk("x1").Wipe();
  cluster.world().RunFor(absl::Seconds(10));
  EXPECT_LT(cluster.version(), 12u);
  cluster.world().Restart("x1");
  ASSERT_TRUE(cluster.RunToSeal()) << cluster.world().LogText();
  ExpectSealedEqual(cluster, 3, 12);
  EXPECT_EQ(cluster.Verify("x1")->state_digest, cluster.Verify("p1")->state_digest);
}

// If this failed, the death of the one peer that others can dial would hang the run, fail one
// attempt after another, or leave that peer behind when it is back.
TEST(SimRunTest, WithoutItsOnlyReducerARunWaitsAndGoesOnWithIt) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    SimClusterSettings settings;
    settings.dial_out = {"p1", "p3"};
    SimCluster cluster(seed, settings);
    ASSERT_TRUE(cluster.RunToVersion(2)) << cluster.world().LogText();
    cluster.world().RunFor(absl::Milliseconds(90 * static_cast<int64_t>(seed)));
    cluster.world().Kill("p2");
    cluster.world().RunFor(absl::Seconds(20));
    const uint64_t version = cluster.version();
    cluster.world().RunFor(absl::Minutes(1));
    EXPECT_EQ(cluster.version(), version);
    EXPECT_GE(cluster.world().LogCount("the run waits: no reachable reducer"), 2u) << seed;
    EXPECT_LE(cluster.world().LogCount("this attempt failed"), 1u) << seed;
    cluster.world().Restart("p2");
    ASSERT_TRUE(cluster.RunToSeal()) << "seed " << seed << "\n" << cluster.world().LogText();
    ExpectSealedEqual(cluster, 3, 10);
  }
}

// If this failed, the same seed would not give the same history, and no failure could be
// reproduced.
TEST(SimRunTest, SameSeedSameHistory) {
  SimCluster first(7, {});
  SimCluster second(7, {});
  ASSERT_TRUE(first.RunToSeal());
  ASSERT_TRUE(second.RunToSeal());
  EXPECT_EQ(first.world().digest(), second.world().digest());
}

// If this failed, error feedback would split replicas or stop a run.
TEST(SimRunTest, ErrorFeedback) {
  SimClusterSettings settings;
  settings.error_feedback = true;
  SimCluster cluster(2, settings);
  ASSERT_TRUE(cluster.RunToSeal()) << cluster.world().LogText();
  ExpectSealedEqual(cluster, 3, 10);
}

// If this failed, entries of fragments would split replicas, leave values out, or wait for ever for
// a peer whose update was too late for its fragment.
TEST(SimRunTest, FragmentsTakeTurnsAndWhoIsLateTrainsAnew) {
  for (const uint32_t fragments : {1u, 3u}) {
    SimClusterSettings settings;
    settings.fragments = fragments;
    settings.error_feedback = true;
    settings.rounds = 15;
    settings.elements = 60000;
    settings.steps["p3"] = absl::Milliseconds(400);
    SimCluster cluster(12 + fragments, settings);
    ASSERT_TRUE(cluster.RunToSeal()) << cluster.world().LogText();
    ExpectSealedEqual(cluster, 3, 15);
    std::map<uint32_t, uint64_t> values;  // by fragment
    for (const v1::EntryHeader& header : cluster.stored().headers) {
      EXPECT_EQ(header.fragments(), fragments > 1 ? fragments : 0);
      EXPECT_EQ(header.fragment(), (header.version() - 1) % fragments);
      values[header.fragment()] = header.range_elements();
    }
    EXPECT_EQ(values.size(), fragments);
    uint64_t covered = 0;
    for (const auto& [fragment, count] : values) covered += count;
    EXPECT_EQ(covered, settings.elements);
    EXPECT_EQ(cluster.world().LogCount(" E "), 0u);
  }
}

// If this failed, a run with some codec in its config, or some codec of means, would not commit, or
// its log not replay.
TEST(SimRunTest, EveryCodecTrainsCommitsAndReplays) {
  std::vector<std::string> uppers = CodecNames();
  uppers.push_back("");
  for (const std::string& codec : WireCodecNames()) {
    for (const std::string& upper : uppers) {
      if (codec == upper || !ParseLevels(codec, upper).ok()) continue;
      SCOPED_TRACE(codec + "/" + upper);
      SimClusterSettings settings;
      settings.codec = codec;
      settings.upper_codec = upper;
      settings.error_feedback = true;
      SimCluster cluster(3, settings);
      ASSERT_TRUE(cluster.RunToVersion(4)) << cluster.world().LogText();
      cluster.world().Kill("p2");
      cluster.world().Restart("p2");
      ASSERT_TRUE(cluster.RunToSeal()) << cluster.world().LogText();
      ExpectSealedEqual(cluster, 3, 10);
    }
  }
}

// If this failed, a peer killed at some instant would stop the others or come back with another
// state.
TEST(SimRunTest, PeerKilledAtManyInstantsAndRestarted) {
  for (uint64_t seed = 0; seed < 25; ++seed) {
    SimCluster cluster(seed, {});
    ASSERT_TRUE(cluster.RunToVersion(2)) << cluster.world().LogText();
    cluster.world().RunFor(absl::Milliseconds(40 * static_cast<int64_t>(seed)));
    cluster.world().Kill("p2");
    const uint64_t version = cluster.version();
    ASSERT_TRUE(cluster.RunToVersion(version + 2)) << "seed " << seed << "\n"
                                                   << cluster.world().LogText();
    cluster.world().Restart("p2");
    ASSERT_TRUE(cluster.RunToSeal()) << "seed " << seed << "\n" << cluster.world().LogText();
    ExpectSealedEqual(cluster, 3, 10);
  }
}

// If this failed, a coordinator killed at some instant would lose an announced version or stop the
// run.
TEST(SimRunTest, CoordinatorKilledAtManyInstantsAndRestarted) {
  for (uint64_t seed = 0; seed < 25; ++seed) {
    SimCluster cluster(seed, {});
    ASSERT_TRUE(cluster.RunToVersion(2)) << cluster.world().LogText();
    cluster.world().RunFor(absl::Milliseconds(40 * static_cast<int64_t>(seed)));
    const uint64_t announced = cluster.version();
    cluster.world().Kill("coordinator");
    cluster.world().RunFor(absl::Milliseconds(300 * static_cast<int64_t>(seed % 5)));
    cluster.world().Restart("coordinator");
    EXPECT_GE(cluster.version(), announced) << "seed " << seed;
    ASSERT_TRUE(cluster.RunToSeal()) << "seed " << seed << "\n" << cluster.world().LogText();
    ExpectSealedEqual(cluster, 3, 10);
  }
}

// If this failed, a peer that is back before it counts as dead would be waited for without end: its
// new process knows nothing of the exchange of the old one.
TEST(SimRunTest, PeerKilledAndBackAtOnce) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SimCluster cluster(seed, {});
    ASSERT_TRUE(cluster.RunToVersion(2)) << cluster.world().LogText();
    // An exchange takes some 7 ms of each half second: most instants here lie in one.
    cluster.world().RunFor(
        absl::Milliseconds(seed < 40 ? 495 + static_cast<int64_t>(seed) / 2 : 10 * seed));
    cluster.world().Kill("p1");
    cluster.world().RunFor(absl::Milliseconds(1));
    cluster.world().Restart("p1");
    ASSERT_TRUE(cluster.RunToSeal(absl::Minutes(2))) << "seed " << seed << "\n"
                                                     << cluster.world().LogText();
    ExpectSealedEqual(cluster, 3, 10);
  }
}

// If this failed, two deaths at once (of peers, or of the coordinator and a peer) would stop a run
// that still has its quorum.
TEST(SimRunTest, TwoKilledTogether) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    SimClusterSettings settings;
    settings.peers = 5;
    settings.quorum = 3;
    SimCluster cluster(seed, settings);
    ASSERT_TRUE(cluster.RunToVersion(2)) << cluster.world().LogText();
    cluster.world().RunFor(absl::Milliseconds(490 + static_cast<int64_t>(seed)));
    const std::string second = seed % 2 == 0 ? "p5" : "coordinator";
    cluster.world().Kill("p2");
    cluster.world().Kill(second);
    cluster.world().RunFor(absl::Milliseconds(700 * static_cast<int64_t>(seed % 6)));
    cluster.world().Restart("p2");
    cluster.world().Restart(second);
    ASSERT_TRUE(cluster.RunToSeal(absl::Minutes(2))) << "seed " << seed << "\n"
                                                     << cluster.world().LogText();
    ExpectSealedEqual(cluster, 5, 10);
  }
}

// If this failed, a link cut in mid-exchange would split the replicas or hang the round.
TEST(SimRunTest, LinksBreakAtManyBytes) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    SimCluster cluster(seed, {});
    ASSERT_TRUE(cluster.RunToVersion(1)) << cluster.world().LogText();
    cluster.world().network().BreakCallsAfter("p1", "p2", 997 * seed);
    cluster.world().network().BreakCallsAfter("p3", "p1", 1499 * seed);
    cluster.world().network().BreakCallsAfter("p2", "coordinator", 71 * seed);
    ASSERT_TRUE(cluster.RunToSeal(absl::Minutes(2))) << "seed " << seed << "\n"
                                                     << cluster.world().LogText();
    ExpectSealedEqual(cluster, 3, 10);
  }
}

// If this failed, a death in the last evaluation would leave a share of it unanswered, and the run
// would never be sealed.
TEST(SimRunTest, PeerKilledWhileTheRunEnds) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    SimCluster cluster(seed, {});
    ASSERT_TRUE(cluster.RunToVersion(10)) << cluster.world().LogText();
    cluster.world().RunFor(absl::Milliseconds(3 * static_cast<int64_t>(seed)));
    if (cluster.finished().count("p1") != 0) continue;
    cluster.world().Kill("p1");
    cluster.world().RunFor(absl::Seconds(seed % 4));
    cluster.world().Restart("p1");
    ASSERT_TRUE(cluster.RunToSeal(absl::Minutes(2))) << "seed " << seed << "\n"
                                                     << cluster.world().LogText();
    ExpectSealedEqual(cluster, 3, 10);
  }
}

// If this failed, the one peer that holds version 0 would be turned away before it could report it.
TEST(SimRunTest, CoordinatorKilledWhileVersionZeroIsMade) {
  for (int64_t instant = 98; instant < 112; ++instant) {
    SimCluster cluster(8, {});
    cluster.world().RunFor(absl::Milliseconds(instant));
    cluster.world().Kill("coordinator");
    cluster.world().RunFor(absl::Milliseconds(50));
    cluster.world().Restart("coordinator");
    ASSERT_TRUE(cluster.RunToSeal(absl::Minutes(2))) << "instant " << instant << "\n"
                                                     << cluster.world().LogText();
    ExpectSealedEqual(cluster, 3, 10);
  }
}

// If this failed, a coordinator whose folder was restored from a backup, or lost, would expel the
// run's peers, fork the history or mix up two exchanges.
TEST(SimRunTest, CoordinatorRestoredFromABackup) {
  for (uint64_t seed = 0; seed < 24; ++seed) {
    SimClusterSettings settings;
    settings.rounds = 14;
    SimCluster cluster(seed, settings);
    ASSERT_TRUE(cluster.RunToVersion(3)) << cluster.world().LogText();
    const size_t backup = seed % 3 == 0 ? 0 : cluster.transactions().size();
    ASSERT_TRUE(cluster.RunToVersion(8)) << cluster.world().LogText();
    cluster.world().RunFor(absl::Milliseconds(23 * static_cast<int64_t>(seed)));
    cluster.world().Kill("coordinator");
    std::vector<v1::EntryHeader> history = cluster.stored().headers;
    cluster.RestoreStore(backup);
    if (seed % 4 == 1) cluster.world().Kill("p2");
    cluster.world().RunFor(absl::Milliseconds(100 * static_cast<int64_t>(seed % 5)));
    cluster.world().Restart("coordinator");
    if (seed % 4 == 1) cluster.world().Restart("p2");
    ASSERT_TRUE(cluster.RunToSeal(absl::Minutes(2))) << "seed " << seed << "\n"
                                                     << cluster.world().LogText();
    ExpectSealedEqual(cluster, 3, 14);
    history.pop_back();  // may not have been announced when the store was lost
    for (size_t i = 0; i < history.size(); ++i) {
      EXPECT_EQ(cluster.stored().headers[i].SerializeAsString(), history[i].SerializeAsString())
          << "seed " << seed << " version " << i + 1;
    }
    EXPECT_EQ(cluster.world().LogCount("two histories"), 0u) << "seed " << seed;
  }
}

// If this failed, peers that keep as little as possible could not help a store that is one version
// behind: the header that it lacks is only in their snapshots.
TEST(SimRunTest, CoordinatorRestoredWherePeersKeepLittle) {
  for (uint64_t seed = 0; seed < 6; ++seed) {
    SimClusterSettings settings;
    settings.rounds = 14;
    settings.keep_bytes = 1;
    settings.elements = 300;  // its share for old headers is less than one
    SimCluster cluster(seed, settings);
    const uint64_t version = 5 + seed;
    ASSERT_TRUE(cluster.RunToVersion(version)) << cluster.world().LogText();
    size_t backup = cluster.transactions().size();
    while (cluster.transactions()[backup - 1].headers.empty()) --backup;
    // Snapshots are made, and what is before them dropped.
    cluster.world().RunFor(absl::Milliseconds(300));
    ASSERT_EQ(cluster.version(), version);
    cluster.world().Kill("coordinator");
    cluster.RestoreStore(backup - 1);
    ASSERT_EQ(cluster.version(), version - 1);
    cluster.world().RunFor(absl::Milliseconds(200));
    cluster.world().Restart("coordinator");
    ASSERT_TRUE(cluster.RunToSeal(absl::Minutes(2))) << "seed " << seed << "\n"
                                                     << cluster.world().LogText();
    ExpectSealedEqual(cluster, 3, 14);
  }
}

// If this failed, a store that is older than the oldest header of every peer would end the run, or
// data would be counted twice after it was restored.
TEST(SimRunTest, CoordinatorRestoredFromBeforeAllHeaders) {
  for (uint64_t seed = 0; seed < 6; ++seed) {
    SimClusterSettings settings;
    settings.rounds = 30;
    settings.keep_bytes = 1;
    settings.elements = 300;
    SimCluster cluster(seed, settings);
    ASSERT_TRUE(cluster.RunToVersion(3)) << cluster.world().LogText();
    const size_t backup = cluster.transactions().size();
    ASSERT_TRUE(cluster.RunToVersion(20)) << cluster.world().LogText();
    cluster.world().RunFor(absl::Milliseconds(300 + 50 * static_cast<int64_t>(seed)));
    cluster.world().Kill("coordinator");
    const std::vector<v1::EntryHeader> before = cluster.stored().headers;
    cluster.RestoreStore(backup);
    ASSERT_LE(cluster.version(), 4u);
    cluster.world().RunFor(absl::Milliseconds(200));
    cluster.world().Restart("coordinator");
    const auto adopted = [&] {
      return cluster.world().LogCount("the store has adopted its peers' history") == 1;
    };
    ASSERT_TRUE(cluster.world().RunUntil(adopted, settings.failure_timeout))
        << "seed " << seed << "\n"
        << cluster.world().LogText();
    EXPECT_EQ(cluster.world().LogCount("any more: the history goes on with the signed one"), 1u);
    EXPECT_EQ(cluster.stored().gaps.size(), 1u);
    ASSERT_TRUE(cluster.RunToSeal(absl::Minutes(2))) << cluster.world().LogText();
    ExpectSealedEqual(cluster, 3, 30);
    // By the headers of both lives: what the gap has forgotten too is counted once.
    std::set<uint64_t> spent;
    const auto spend = [&](const v1::EntryHeader& header) {
      for (const v1::Contributor& contributor : header.contributors()) {
        for (const v1::SampleRange& range : contributor.samples()) {
          for (uint64_t i = 0; i < range.count(); ++i) {
            EXPECT_TRUE(spent.insert(range.first() + i).second)
                << "seed " << seed << " version " << header.version();
          }
        }
      }
    };
    for (const v1::EntryHeader& header : before) spend(header);
    for (const v1::EntryHeader& header : cluster.stored().headers) {
      if (header.version() > before.size()) spend(header);
    }
  }
}

// If this failed, a joiner without any state could not enter a running run.
TEST(SimRunTest, WipedPeerJoinsFromASnapshot) {
  SimClusterSettings settings;
  settings.rounds = 12;
  SimCluster cluster(5, settings);
  ASSERT_TRUE(cluster.RunToVersion(5));
  cluster.world().Kill("p3");
  cluster.world().RunFor(absl::Seconds(3));
  cluster.world().process("p3").disk().Wipe();
  cluster.world().Restart("p3");
  ASSERT_TRUE(cluster.RunToSeal()) << cluster.world().LogText();
  ExpectSealedEqual(cluster, 3, 12);
}

}  // namespace
}  // namespace atolld
