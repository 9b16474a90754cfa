#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "membership/trust/contribution.h"
#include "tests/unit/daemon/exchange/swarm.h"

namespace atolld {
namespace {

using Names = std::vector<std::string>;

struct Three {
  explicit Three(uint64_t seed, SwarmSettings settings = SwarmSettings())
      : swarm(Slow(seed, settings)) {
    for (const std::string& name : names) swarm.Add(name);
    plan = swarm.MakePlan(names, names);
  }
  static SwarmSettings Slow(uint64_t seed, SwarmSettings settings) {
    settings.seed = seed;
    settings.elements = 20000;
    settings.sim.network.link.bytes_per_second = 200e3;
    return settings;
  }
  void GiveAll(const v1::Plan& given) {
    for (const std::string& name : names) swarm.Give(name, given);
  }
  bool Finish(const Names& who, uint32_t revision) {
    return swarm.world.RunUntil([&] { return swarm.Complete(who, revision); }, absl::Seconds(30));
  }

  const Names names = {"p1", "p2", "p3"};
  Swarm swarm;
  v1::Plan plan;
};

// Would break: a network hiccup in the middle of a frame would cost the round, or change its bits.
TEST(ExchangeFault, GoesOnAfterBreaksAtAnyByte) {
  uint64_t healthy = 0;
  {
    Three three(1);
    three.GiveAll(three.plan);
    ASSERT_TRUE(three.Finish(three.names, 1));
    healthy = three.swarm.world.network().bytes_sent("p1", "p2") +
              three.swarm.world.network().bytes_sent("p2", "p1");
  }
  for (uint64_t at = 0; at < healthy; at += healthy / 40) {
    Three three(1 + at);
    three.swarm.world.network().BreakCallsAfter("p1", "p2", at);
    three.GiveAll(three.plan);
    ASSERT_TRUE(three.Finish(three.names, 1)) << at << "\n" << three.swarm.world.LogText();
    three.swarm.CheckOutcomes(three.names, three.plan, three.names);
    EXPECT_TRUE(three.swarm.peer("p1").unreachable.empty());
  }
}

// Would break: a peer that was told the plan in brief could not contribute, or could not take over:
// it knows nobody whose update comes before its own plan does.
TEST(ExchangeFault, WhoWasToldInBriefTakesOverWhenItIsToldTheWhole) {
  const Names four = {"p1", "p2", "p3", "p4"};
  for (const bool dies : {false, true}) {
    Swarm swarm(Three::Slow(3, SwarmSettings()));
    for (const std::string& name : four) swarm.Add(name);
    const v1::Plan plan = swarm.MakePlan(four, {"p1"});
    const auto give = [&](const std::string& name, const v1::Plan& whole) {
      const BriefPlans plans(whole);
      swarm.Give(name, plans.servers().count(name) > 0 ? whole : plans.For(name));
    };
    const auto complete = [&](const Names& names, uint32_t revision) {
      return swarm.world.RunUntil([&] { return swarm.Complete(names, revision); },
                                  absl::Seconds(30));
    };
    for (const std::string& name : four) give(name, plan);
    if (!dies) {
      ASSERT_TRUE(complete(four, 1)) << swarm.world.LogText();
      swarm.CheckOutcomes(four, plan, four);
      continue;
    }
    swarm.world.RunFor(absl::Milliseconds(30));
    swarm.Kill("p1");
    const v1::Plan next = Swarm::Revise(plan, "p1", "p2");
    const Names left = {"p2", "p3", "p4"};
    give("p3", next);
    give("p4", next);
    swarm.world.RunFor(absl::Milliseconds(300));  // their updates are at p2 before its plan is
    EXPECT_FALSE(swarm.Complete(left, 2));
    give("p2", next);
    ASSERT_TRUE(complete(left, 2)) << swarm.world.LogText();
    swarm.CheckOutcomes(left, next, left);
    EXPECT_TRUE(swarm.peer("p2").refused.empty());
    EXPECT_TRUE(swarm.peer("p3").unreachable.empty() ||
                swarm.peer("p3").unreachable[0].first == "p1");
  }
}

// Would break: a contributor that dies in mid-exchange would cost the others its round, or its
// half-sent update would be counted differently by different peers.
TEST(ExchangeFault, LeavesOutWhatALostContributorHadNotSent) {
  // p3 reduces nothing; some of its chunks arrive before it dies.
  Three three(5);
  const v1::Plan plan = three.swarm.MakePlan(three.names, {"p1", "p2"});
  three.GiveAll(plan);
  three.swarm.world.RunFor(absl::Milliseconds(30));
  three.swarm.Kill("p3");
  three.swarm.world.RunFor(absl::Milliseconds(500));
  EXPECT_FALSE(three.swarm.Complete({"p1"}, 1));  // nobody may guess that it is lost
  const v1::Plan next = Swarm::Revise(plan, "p3", "p1");
  three.swarm.Give("p1", next);
  three.swarm.world.RunFor(absl::Milliseconds(50));
  three.swarm.Give("p2", next);
  ASSERT_TRUE(three.Finish({"p1", "p2"}, 2)) << three.swarm.world.LogText();
  three.swarm.CheckOutcomes({"p1", "p2"}, next, {"p1", "p2"});
  // In some chunks p3's were there already.
  EXPECT_EQ(three.swarm.peer("p1").outcomes.at(2).records.sets_size(), 2);
}

// Would break: a reducer's death would cost the round; its shard would be a mix of two attempts.
TEST(ExchangeFault, RedoesTheShardOfADeadReducerElsewhere) {
  for (int milliseconds = 5; milliseconds < 200; milliseconds += 15) {
    Three three(static_cast<uint64_t>(milliseconds));
    three.GiveAll(three.plan);
    three.swarm.world.RunFor(absl::Milliseconds(milliseconds));
    three.swarm.Kill("p2");
    three.swarm.world.RunFor(absl::Milliseconds(100));
    const v1::Plan next = Swarm::Revise(three.plan, "p2", "p3");
    // The contributor hears of it first: its chunks of the new attempt come early.
    three.swarm.Give("p1", next);
    three.swarm.world.RunFor(absl::Milliseconds(200));
    three.swarm.Give("p3", next);
    ASSERT_TRUE(three.Finish({"p1", "p3"}, 2)) << three.swarm.world.LogText();
    three.swarm.CheckOutcomes({"p1", "p3"}, next, {"p1", "p3"});
  }
}

// Would break: after a disagreement the shard must be made anew, by the same peer if need be, and
// voted for anew.
TEST(ExchangeFault, BeginsAgainUnderANewAttemptAndCompletesOnceARevision) {
  Three three(9);
  three.GiveAll(three.plan);
  ASSERT_TRUE(three.Finish(three.names, 1));
  v1::Plan next = three.plan;
  next.set_revision(2);
  for (v1::Shard& shard : *next.mutable_shards()) shard.set_attempt(2);
  three.GiveAll(next);
  three.GiveAll(three.plan);  // older: ignored
  ASSERT_TRUE(three.Finish(three.names, 2));
  three.swarm.CheckOutcomes(three.names, next, three.names);
  v1::Plan same = next;
  same.set_revision(3);
  three.GiveAll(same);
  ASSERT_TRUE(three.Finish(three.names, 3));
  three.swarm.CheckOutcomes(three.names, same, three.names);
}

// Would break: a link on which nothing moves would be noticed at the round's deadline only.
TEST(ExchangeFault, ReportsAReducerThatNothingReaches) {
  Three three(11);
  SimLinkSettings stuck;
  stuck.bytes_per_second = 1;
  three.swarm.world.network().SetLink("p1", "p2", stuck);
  three.GiveAll(three.plan);
  three.swarm.world.RunFor(absl::Milliseconds(900));
  EXPECT_TRUE(three.swarm.peer("p1").unreachable.empty());
  three.swarm.world.RunFor(absl::Milliseconds(1700));
  ASSERT_FALSE(three.swarm.peer("p1").unreachable.empty());
  for (const auto& [reducer, why] : three.swarm.peer("p1").unreachable) {
    EXPECT_EQ(reducer, "p2") << why;
  }
  EXPECT_TRUE(three.swarm.peer("p3").unreachable.empty());
}

// Would break: a reducer that refuses every dial, as one behind NAT does, would cost each round the
// whole failure_timeout; one that is only started again would lose its shard for that.
TEST(ExchangeFault, ReportsAReducerThatRefusesDialsSoonAndGoesOnTrying) {
  Three three(13);
  three.swarm.world.CutLink("p1", "p2");
  three.GiveAll(three.plan);
  three.swarm.world.RunFor(absl::Milliseconds(400));
  EXPECT_TRUE(three.swarm.peer("p1").unreachable.empty());  // it may be back in a moment
  three.swarm.world.RunFor(absl::Milliseconds(600));
  ASSERT_EQ(three.swarm.peer("p1").unreachable.size(), 1u);
  EXPECT_EQ(three.swarm.peer("p1").unreachable[0].first, "p2");
  EXPECT_TRUE(absl::IsUnavailable(three.swarm.peer("p1").unreachable[0].second));
  EXPECT_TRUE(three.swarm.peer("p3").unreachable.empty());
  three.swarm.world.RunFor(absl::Seconds(1));
  EXPECT_EQ(three.swarm.peer("p1").unreachable.size(), 1u);  // not at every dial
  three.swarm.world.HealLink("p1", "p2");
  ASSERT_TRUE(three.Finish(three.names, 1));
  three.swarm.CheckOutcomes(three.names, three.plan, three.names);
}

// Would break: a peer would wait for a reducer that has gone on to another round.
TEST(ExchangeFault, ReportsAReducerThatRefuses) {
  Three three(12);
  v1::Plan later = three.plan;
  later.set_version(8);
  three.swarm.Give("p2", later);
  three.swarm.Give("p1", three.plan);
  three.swarm.world.RunFor(absl::Milliseconds(200));
  ASSERT_GE(three.swarm.peer("p1").unreachable.size(), 1u);
  EXPECT_EQ(three.swarm.peer("p1").unreachable[0].first, "p2");
  EXPECT_TRUE(absl::IsFailedPrecondition(three.swarm.peer("p1").unreachable[0].second));
}

// Would break: a use after free, whenever a round is given up in the middle of anything; a daemon
// that comes back in the same round with nothing, and would not be served again.
TEST(ExchangeFault, MayBeDestroyedAtAnyTime) {
  for (int steps = 1; steps < 120; steps += 7) {
    Three three(static_cast<uint64_t>(steps));
    three.GiveAll(three.plan);
    three.swarm.world.RunFor(absl::Milliseconds(2 * steps));
    Swarm::Node& node = *three.swarm.peer("p2").node;
    node.server->SetCurrent(nullptr);
    node.exchange.reset();
    three.swarm.world.RunFor(absl::Milliseconds(50));
    // It begins anew; what it had reduced is gone, so its shard needs a new attempt.
    v1::Plan next = three.plan;
    next.set_revision(2);
    next.mutable_shards(1)->set_attempt(2);
    three.GiveAll(next);
    ASSERT_TRUE(three.Finish(three.names, 2)) << three.swarm.world.LogText();
    three.swarm.CheckOutcomes(three.names, next, three.names);
  }
}

}  // namespace
}  // namespace atolld
