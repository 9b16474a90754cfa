// The end of whole simulated runs: which peers stay for others, and what is said when no peer can
// help.
#include <gtest/gtest.h>

#include <string>

#include "compression/base/check.h"
#include "tests/sim/sim_cluster.h"

namespace atolld {
namespace {

constexpr uint64_t kRounds = 10;

bool EndsWithin(SimCluster& cluster, const std::string& peer, absl::Duration limit) {
  return cluster.world().RunUntil([&] { return cluster.finished().count(peer) != 0; }, limit);
}

void ExpectSealed(SimCluster& cluster, const std::string& peer) {
  ASSERT_EQ(cluster.finished().count(peer), 1u) << peer << "\n" << cluster.world().LogText();
  EXPECT_TRUE(cluster.finished().at(peer).ok()) << peer << ": " << cluster.finished().at(peer);
  const absl::StatusOr<VerifyReport> report = cluster.Verify(peer);
  ASSERT_TRUE(report.ok()) << peer << ": " << report.status();
  EXPECT_EQ(report->version, kRounds) << peer;
  EXPECT_TRUE(report->sealed) << peer;
}

// A run of three peers, of which p3 dies while version 8 is made.
struct WithoutP3 {
  explicit WithoutP3(uint64_t seed) : cluster(seed, {}), world(cluster.world()) {
    CHECK(cluster.RunToVersion(7));
    world.RunFor(absl::Milliseconds(100));
    world.Kill("p3");
  }
  void RunToTheEndOf(const std::string& peer) {
    ASSERT_TRUE(EndsWithin(cluster, peer, absl::Minutes(2))) << world.LogText();
  }
  // It is back as the last round ends, and sees the coordinator and nobody else.
  void ComeBackCutOff() {
    ASSERT_TRUE(cluster.RunToVersion(kRounds)) << world.LogText();
    for (const char* other : {"p1", "p2"}) world.CutLink("p3", other);
    world.Restart("p3");
    ASSERT_TRUE(
        world.RunUntil([this] { return world.LogCount("staying for p3") == 2; }, absl::Minutes(1)))
        << world.LogText();
  }
  void Heal() {
    for (const char* other : {"p1", "p2"}) world.HealLink("p3", other);
  }
  SimCluster cluster;
  SimWorld& world;
};

// If this failed, a living peer that lacks the last entry would be left behind by those that hold
// it.
TEST(SimEndTest, DonorsStayForALivePeerThatLacksTheLastEntry) {
  for (uint64_t seed = 0; seed < 4; ++seed) {
    WithoutP3 run(seed);
    run.ComeBackCutOff();
    run.world.RunFor(absl::Seconds(5));  // longer than any time-out of the others
    EXPECT_TRUE(run.cluster.finished().empty()) << run.world.LogText();
    run.Heal();
    ASSERT_TRUE(run.cluster.RunToSeal(absl::Seconds(10))) << run.world.LogText();
    for (const char* peer : {"p1", "p2", "p3"}) ExpectSealed(run.cluster, peer);
  }
}

// If this failed, a peer that can reach no other would keep all others of a finished run for ever.
TEST(SimEndTest, NobodyStaysForAPeerThatCannotBeHelped) {
  WithoutP3 run(5);
  run.ComeBackCutOff();
  for (const char* peer : {"p3", "p1", "p2"}) {
    ASSERT_TRUE(EndsWithin(run.cluster, peer, absl::Seconds(20))) << run.world.LogText();
  }
  EXPECT_TRUE(absl::IsNotFound(run.cluster.finished().at("p3"))) << run.cluster.finished().at("p3");
  for (const char* peer : {"p1", "p2"}) ExpectSealed(run.cluster, peer);
}

// If this failed, a peer that dies before it has the last entry would be waited for.
TEST(SimEndTest, NobodyStaysForTheDead) {
  WithoutP3 run(6);
  run.ComeBackCutOff();
  run.world.Kill("p3");
  for (const char* peer : {"p1", "p2"}) {
    ASSERT_TRUE(EndsWithin(run.cluster, peer, absl::Seconds(4))) << run.world.LogText();
    ExpectSealed(run.cluster, peer);
  }
}

// If this failed, a coordinator that dies after the seal would hold the peers for ever.
TEST(SimEndTest, NobodyStaysWithoutTheCoordinator) {
  WithoutP3 run(6);
  run.ComeBackCutOff();
  run.world.Kill("coordinator");
  for (const char* peer : {"p1", "p2"}) {
    ASSERT_TRUE(EndsWithin(run.cluster, peer, absl::Seconds(4))) << run.world.LogText();
    ExpectSealed(run.cluster, peer);
  }
}

// If this failed, a peer that comes back when all others have left would keep dialling for ever.
TEST(SimEndTest, APeerThatComesBackToNobodySaysSoAndEnds) {
  for (const bool wiped : {false, true}) {
    WithoutP3 run(7);
    run.RunToTheEndOf("p1");
    run.RunToTheEndOf("p2");
    if (wiped) run.world.process("p3").disk().Wipe();
    run.world.Restart("p3");
    // Twice failure_timeout, a redial's longest pause and the last attempt.
    ASSERT_TRUE(EndsWithin(run.cluster, "p3", absl::Seconds(12))) << run.world.LogText();
    const absl::Status why = run.cluster.finished().at("p3");
    EXPECT_TRUE(absl::IsNotFound(why)) << why;
    EXPECT_GE(run.world.LogCount(std::string(why.message())), 1u) << why;
    EXPECT_NE(why.message().find("is over, sealed at version 10"), std::string::npos) << why;
    EXPECT_NE(why.message().find(wiped ? "holds nothing" : "and lacks entries 8 to 10"),
              std::string::npos)
        << why;
    EXPECT_NE(why.message().find("It was at p1 (left), p2 (left)"), std::string::npos) << why;
  }
}

// If this failed, a peer that has the rest would have come back for nothing.
TEST(SimEndTest, APeerThatComesBackToADonorCompletes) {
  for (const bool wiped : {false, true}) {
    WithoutP3 run(8);
    const auto sealed = [&] { return run.cluster.stored().seal.has_value(); };
    ASSERT_TRUE(run.world.RunUntil(sealed, absl::Minutes(2))) << run.world.LogText();
    run.world.Kill("p2");
    run.RunToTheEndOf("p1");
    if (wiped) run.world.process("p3").disk().Wipe();
    run.world.Restart("p3");
    run.world.RunFor(absl::Seconds(4));
    EXPECT_EQ(run.cluster.finished().count("p3"), 0u);
    run.world.Restart("p2");
    run.RunToTheEndOf("p2");
    run.RunToTheEndOf("p3");
    for (const char* peer : {"p1", "p2", "p3"}) ExpectSealed(run.cluster, peer);
  }
}

// If this failed, a peer without a coordinator would give up, or leave its operator without a
// reason.
TEST(SimEndTest, WithoutACoordinatorItSaysWhatItWaitsForAndDialsOn) {
  WithoutP3 run(9);
  run.RunToTheEndOf("p1");
  run.RunToTheEndOf("p2");
  run.world.Kill("coordinator");
  run.world.Restart("p3");
  run.world.RunFor(absl::Minutes(5));
  EXPECT_EQ(run.cluster.finished().count("p3"), 0u);
  const size_t lines = run.world.LogCount("This replica holds version 7 of run sim");
  EXPECT_GE(lines, 4u) << run.world.LogText();
  EXPECT_LE(lines, 7u) << run.world.LogText();
  run.world.Restart("coordinator");
  ASSERT_TRUE(EndsWithin(run.cluster, "p3", absl::Seconds(20))) << run.world.LogText();
  const absl::Status why = run.cluster.finished().at("p3");
  EXPECT_TRUE(absl::IsNotFound(why)) << why;
  // A coordinator that has not heard of p1 and p2 since its restart knows who made the last entry.
  EXPECT_NE(why.message().find("It was at p1, p2:"), std::string::npos) << why;
}

// If this failed, a caller that asks a peer for what it does not serve would take the peer for
// dead; so would the coordinator when it probes a peer that has just started.
TEST(SimEndTest, AnUnservedCallGetsItsStatus) {
  SimClusterSettings settings;
  settings.start = false;
  SimCluster cluster(10, settings);
  cluster.Start("p1");  // without a coordinator it follows no run
  SimProcess& asker = cluster.world().AddProcess("asker");
  const auto ask = [&](const std::string& method) {
    absl::Status verdict = absl::UnknownError("not over");
    const std::unique_ptr<Call> call = asker.env().transport.Dial("p1:1", method, absl::Seconds(5));
    call->Start({nullptr, nullptr, [&verdict](absl::Status status) { verdict = status; }});
    call->Read();
    cluster.world().RunFor(absl::Seconds(1));
    return verdict;
  };
  EXPECT_TRUE(absl::IsUnimplemented(ask("/atolld.v1.Nothing/Nothing")));
  EXPECT_TRUE(absl::IsUnimplemented(ask("/atolld.v1.Replica/FetchEntries")));
  const absl::Status exchange = ask("/atolld.v1.Exchange/Exchange");
  EXPECT_EQ(exchange.message(), "this peer follows no run yet") << exchange;
}

}  // namespace
}  // namespace atolld
