#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/unit/daemon/exchange/swarm.h"

namespace atolld {
namespace {

using Names = std::vector<std::string>;

// p1 reduces everything over slow links; p2 is close to it and has every mean long before p3 and
// p4.
struct HolderScene {
  explicit HolderScene(uint64_t seed, bool zstd = false) : swarm(Settings(seed, zstd)) {
    for (const std::string& name : names) swarm.Add(name);
    SimLinkSettings slow;
    slow.bytes_per_second = 40e3;
    slow.latency = absl::Milliseconds(50);
    swarm.world.network().SetLink("p1", "p3", slow);
    swarm.world.network().SetLink("p1", "p4", slow);
    plan = swarm.MakePlan(names, {"p1"});
  }
  static SwarmSettings Settings(uint64_t seed, bool zstd) {
    SwarmSettings settings;
    settings.seed = seed;
    settings.zstd = zstd;
    return settings;
  }
  void GiveAll(const v1::Plan& given) {
    for (const std::string& name : names) swarm.Give(name, given);
  }
  bool Whole(const std::string& name) { return !swarm.peer(name).held.empty(); }
  bool Finish(const Names& who, uint32_t revision) {
    return swarm.world.RunUntil([&] { return swarm.Complete(who, revision); }, absl::Seconds(30));
  }

  const Names names = {"p1", "p2", "p3", "p4"};
  Swarm swarm;
  v1::Plan plan;
};

// Would break: the death of a reducer would cost all that it had done, though a survivor has it;
// or survivors would mix what came from the dead with something else.
TEST(ExchangeHolder, GivesOutTheShardOfADeadReducer) {
  for (const bool zstd : {false, true}) {
    // After each delay p3 and p4 lack another number of chunks, in the end none.
    int lacked = 0;
    for (int milliseconds = 0; milliseconds <= 80; milliseconds += 5) {
      SCOPED_TRACE(milliseconds);
      HolderScene scene(static_cast<uint64_t>(milliseconds) + 1, zstd);
      Swarm& swarm = scene.swarm;
      scene.GiveAll(scene.plan);
      ASSERT_TRUE(swarm.world.RunUntil([&] { return scene.Whole("p2"); }, absl::Seconds(30)));
      swarm.world.RunFor(absl::Milliseconds(milliseconds));
      const uint64_t chunks = swarm.grid.chunks();
      EXPECT_EQ(swarm.peer("p1").node->exchange->figures().averaged, chunks);
      const std::string expected(swarm.peer("p2").outcomes.count(1) == 0
                                     ? ""
                                     : swarm.peer("p2").outcomes.at(1).payload.str());
      lacked += scene.Whole("p3") ? 0 : 1;
      swarm.Kill("p1");
      const v1::Plan next = Swarm::Hold(scene.plan, "p1", "p2");
      // Clients may hear of it before the holder does, and the other way round.
      swarm.Give("p3", next);
      swarm.world.RunFor(absl::Milliseconds(20));
      swarm.Give("p2", next);
      swarm.world.RunFor(absl::Milliseconds(20));
      swarm.Give("p4", next);
      ASSERT_TRUE(scene.Finish({"p2", "p3", "p4"}, 2)) << swarm.world.LogText();
      swarm.CheckOutcomes({"p2", "p3", "p4"}, next, scene.names);
      EXPECT_EQ(swarm.peer("p2").outcomes.at(2).records.shards(0).reducer(), "p1");
      if (!expected.empty()) {
        EXPECT_EQ(swarm.peer("p2").outcomes.at(2).payload.str(), expected);
      }
      EXPECT_EQ(swarm.Averaged(), 0u);  // nothing is made a second time
      for (const char* name : {"p2", "p3", "p4"}) EXPECT_TRUE(swarm.peer(name).unreachable.empty());
    }
    EXPECT_GT(lacked, 4);
    EXPECT_LT(lacked, 17);
  }
}

// Would break: a shard could be lost by the death of two peers, one after the other; or what came
// from the first holder would be thrown away.
TEST(ExchangeHolder, MayDieItselfForAnotherOrANewReducer) {
  for (const bool another : {true, false}) {
    for (int milliseconds = 0; milliseconds <= 60; milliseconds += 6) {
      SCOPED_TRACE(milliseconds);
      HolderScene scene(static_cast<uint64_t>(milliseconds) + 100);
      Swarm& swarm = scene.swarm;
      SimLinkSettings slow;
      slow.bytes_per_second = 40e3;
      swarm.world.network().SetLink("p2", "p4", slow);
      scene.GiveAll(scene.plan);
      ASSERT_TRUE(swarm.world.RunUntil([&] { return scene.Whole("p2"); }, absl::Seconds(30)));
      swarm.Kill("p1");
      const v1::Plan held = Swarm::Hold(scene.plan, "p1", "p2");
      scene.GiveAll(held);
      ASSERT_TRUE(swarm.world.RunUntil([&] { return scene.Whole("p3"); }, absl::Seconds(30)));
      swarm.world.RunFor(absl::Milliseconds(milliseconds));
      swarm.Kill("p2");
      v1::Plan next = Swarm::Hold(held, "p2", "p3");
      if (!another) {
        next.mutable_shards(0)->clear_holder();
        next.mutable_shards(0)->set_reducer("p4");
        next.mutable_shards(0)->set_attempt(2);
      }
      scene.GiveAll(next);
      ASSERT_TRUE(scene.Finish({"p3", "p4"}, 3)) << swarm.world.LogText();
      const Names whole = another ? scene.names : Names{"p3", "p4"};
      swarm.CheckOutcomes({"p3", "p4"}, next, whole);
      EXPECT_EQ(swarm.Averaged(), another ? 0u : swarm.grid.chunks());
    }
  }
}

// Would break: a peer that restarted, or lies, would be waited for until the deadline as though it
// had the shard.
TEST(ExchangeHolder, ThatLacksAChunkIsNamedAtOnce) {
  for (const bool zstd : {false, true}) {
    HolderScene scene(7, zstd);
    Swarm& swarm = scene.swarm;
    scene.GiveAll(scene.plan);
    ASSERT_TRUE(swarm.world.RunUntil([&] { return scene.Whole("p2"); }, absl::Seconds(30)));
    swarm.world.RunFor(absl::Milliseconds(20));
    ASSERT_FALSE(scene.Whole("p3"));
    ASSERT_FALSE(scene.Whole("p4"));
    swarm.Kill("p1");
    // p4 lacks chunks: it is no holder.
    const v1::Plan lie = Swarm::Hold(scene.plan, "p1", "p4");
    scene.GiveAll(lie);
    const absl::Duration began = swarm.world.now();
    ASSERT_TRUE(swarm.world.RunUntil([&] { return !swarm.peer("p3").unreachable.empty(); },
                                     absl::Seconds(1)))
        << swarm.world.LogText();
    EXPECT_LT(swarm.world.now() - began, swarm.settings.failure_timeout / 4);
    EXPECT_EQ(swarm.peer("p3").unreachable[0].first, "p4");
    EXPECT_TRUE(absl::IsFailedPrecondition(swarm.peer("p3").unreachable[0].second));
    // It says so itself, and those that lack nothing do not care.
    ASSERT_FALSE(swarm.peer("p4").unreachable.empty());
    EXPECT_EQ(swarm.peer("p4").unreachable[0].first, "p4");
    EXPECT_TRUE(swarm.peer("p2").unreachable.empty());
    v1::Plan mended = lie;
    mended.set_revision(3);
    mended.mutable_shards(0)->set_holder("p2");
    scene.GiveAll(mended);
    ASSERT_TRUE(scene.Finish({"p2", "p3", "p4"}, 3)) << swarm.world.LogText();
    swarm.CheckOutcomes({"p2", "p3", "p4"}, mended, scene.names);
  }
}

// Would break: with a stream between the two already open, the lie would be noticed by nobody.
TEST(ExchangeHolder, ThatLacksAChunkIsNamedOnStreamsThatAreOpen) {
  HolderScene scene(8);
  Swarm& swarm = scene.swarm;
  // p4 reduces the second half, slowly, so that everybody keeps a stream to it.
  scene.plan = swarm.MakePlan(scene.names, {"p1", "p4"});
  SimLinkSettings slow;
  slow.bytes_per_second = 10e3;
  for (const char* name : {"p2", "p3"}) swarm.world.network().SetLink("p4", name, slow);
  scene.GiveAll(scene.plan);
  swarm.world.RunFor(absl::Milliseconds(30));
  ASSERT_FALSE(scene.Whole("p4"));
  swarm.Kill("p1");
  const v1::Plan lie = Swarm::Hold(scene.plan, "p1", "p4");
  for (const char* name : {"p3", "p4"}) swarm.Give(name, lie);
  ASSERT_TRUE(
      swarm.world.RunUntil([&] { return !swarm.peer("p3").unreachable.empty(); }, absl::Seconds(1)))
      << swarm.world.LogText();
  EXPECT_EQ(swarm.peer("p3").unreachable[0].first, "p4");
  EXPECT_TRUE(absl::IsFailedPrecondition(swarm.peer("p3").unreachable[0].second));
}

// Would break: the coordinator would not know from whom a dead reducer's shard can be fetched, or
// would be told of one that is not whole.
TEST(ExchangeHolder, EachPeerTellsWhichShardsAreWhole) {
  HolderScene scene(9);
  Swarm& swarm = scene.swarm;
  scene.plan = swarm.MakePlan(scene.names, scene.names);
  scene.GiveAll(scene.plan);
  ASSERT_TRUE(scene.Finish(scene.names, 1));
  v1::Plan next = scene.plan;
  next.set_revision(2);
  next.mutable_shards(2)->set_attempt(2);
  scene.GiveAll(next);
  ASSERT_TRUE(scene.Finish(scene.names, 2));
  for (const std::string& name : scene.names) {
    std::vector<std::pair<uint32_t, uint32_t>> held = swarm.peer(name).held;
    EXPECT_EQ(held.back(), (std::pair<uint32_t, uint32_t>{2, 2}));
    std::sort(held.begin(), held.end());
    EXPECT_EQ(held,
              (std::vector<std::pair<uint32_t, uint32_t>>{{0, 1}, {1, 1}, {2, 1}, {2, 2}, {3, 1}}));
  }
}

// Would break: the payload would be copied and hashed anew, and voted for late, at each revision
// that changes nothing for a peer; or lie in memory twice.
TEST(ExchangeHolder, AFinishedPeerKeepsOnePayload) {
  for (const bool zstd : {false, true}) {
    HolderScene scene(10, zstd);
    Swarm& swarm = scene.swarm;
    scene.GiveAll(scene.plan);
    ASSERT_TRUE(scene.Finish(scene.names, 1));
    const uint8_t* const bytes = swarm.peer("p2").outcomes.at(1).payload.data();
    for (const std::string& name : scene.names) {
      const uint64_t held = swarm.peer(name).node->exchange->figures().held_bytes;
      // The reducer keeps the form of the wire for those that may still come.
      EXPECT_EQ(held > 0, zstd && name == "p1") << name;
    }
    swarm.Kill("p1");
    const v1::Plan next = Swarm::Hold(scene.plan, "p1", "p2");
    scene.GiveAll(next);
    ASSERT_TRUE(scene.Finish({"p2", "p3", "p4"}, 2));
    EXPECT_EQ(swarm.peer("p2").outcomes.at(2).payload.data(), bytes);
    // A peer that has nothing yet is served from the payload.
    swarm.Add("guest", false);
    swarm.Give("guest", next);
    ASSERT_TRUE(scene.Finish({"guest"}, 2)) << swarm.world.LogText();
    swarm.CheckOutcomes({"p2", "p3", "p4", "guest"}, next, scene.names);
  }
}

}  // namespace
}  // namespace atolld
