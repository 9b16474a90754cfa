#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/unit/daemon/exchange/liar.h"
#include "tests/unit/daemon/exchange/swarm.h"

namespace atolld {
namespace {

using Names = std::vector<std::string>;

struct Lie {
  std::string what;
  std::function<void(Liar&, const Swarm::Peer&)> tell;
};

std::vector<Lie> Lies() {
  return {
      {"too long",
       [](Liar& liar, const Swarm::Peer&) {
         liar.Send(3, 1, SharedBytes(std::string(100000, 'x')));
       }},
      {"too short",
       [](Liar& liar, const Swarm::Peer& p3) {
         const SharedBytes& good = p3.contribution->chunks[3];
         liar.Send(3, 1, good.Part(0, good.size() - 1));
       }},
      {"empty", [](Liar& liar, const Swarm::Peer&) { liar.Send(3, 1, SharedBytes()); }},
      {"NaN scale",
       [](Liar& liar, const Swarm::Peer& p3) {
         liar.Send(3, 1, WithNanScale(p3.contribution->chunks[3]));
       }},
      {"outside the shard",
       [](Liar& liar, const Swarm::Peer& p3) { liar.Send(15, 1, p3.contribution->chunks[15]); }},
      {"outside the grid",
       [](Liar& liar, const Swarm::Peer& p3) {
         liar.Send(4000000000u, 1, p3.contribution->chunks[3]);
       }},
  };
}

// Whoever does not lie, under the plan's first revision.
bool OthersComplete(Swarm& swarm) {
  return swarm.world.RunUntil([&] { return swarm.Complete({"p1", "p2"}, 1); }, absl::Seconds(5));
}

struct LiarScene {
  explicit LiarScene(bool zstd, const Names& reducers = {"p1", "p2"})
      : swarm(Settings(zstd)), liar(swarm) {
    for (const char* name : {"p1", "p2", "p3"}) swarm.Add(name);
    swarm.world.AddProcess("liar");
    // p3's contribution is known to the oracle; the exchange of p3 itself never starts.
    plan = swarm.MakePlan({"p1", "p2", "p3"}, reducers);
    swarm.Give("p1", plan);
    swarm.Give("p2", plan);
  }
  static SwarmSettings Settings(bool zstd) {
    SwarmSettings settings;
    settings.zstd = zstd;
    return settings;
  }
  Swarm swarm;
  Liar liar;
  v1::Plan plan;
};

// Would break: one peer that lies, or whose memory is bad, would stop every round or poison the
// mean.
TEST(ExchangeLiar, IsRefusedAndTheOthersGoOn) {
  for (const bool zstd : {false, true}) {
    for (const Lie& lie : Lies()) {
      SCOPED_TRACE(lie.what);
      LiarScene scene(zstd);
      scene.liar.Open(scene.plan);
      if (!zstd) {
        for (uint32_t c = 0; c < 3; ++c) {
          scene.liar.Send(c, 1, scene.swarm.peer("p3").contribution->chunks[c]);
        }
      }
      lie.tell(scene.liar, scene.swarm.peer("p3"));
      // p2 never hears of p3: only there the coordinator has to say that it is lost.
      scene.swarm.world.RunFor(absl::Milliseconds(500));
      v1::Plan next = Swarm::Revise(scene.plan, "p3", "p1");
      scene.swarm.Give("p1", next);
      scene.swarm.Give("p2", next);
      ASSERT_TRUE(scene.swarm.world.RunUntil(
          [&] {
            return scene.swarm.Complete({"p1", "p2"}, 2);
          },
          absl::Seconds(5)))
          << scene.swarm.world.LogText();
      scene.swarm.CheckOutcomes({"p1", "p2"}, next, {"p1", "p2"});
      ASSERT_EQ(scene.liar.closed.size(), 1u) << scene.swarm.world.LogText();
      EXPECT_TRUE(absl::IsInvalidArgument(scene.liar.closed[0])) << scene.liar.closed[0];
      // The coordinator can be told, once.
      ASSERT_EQ(scene.swarm.peer("p1").refused.size(), 1u);
      EXPECT_EQ(scene.swarm.peer("p1").refused[0].contributor(), "p3");
      EXPECT_FALSE(scene.swarm.peer("p1").refused[0].reason().empty());
      EXPECT_TRUE(scene.swarm.peer("p2").refused.empty());
    }
  }
}

// Would break: a chunk that cannot be decoded would hold up the chunks of all others until the
// deadline.
TEST(ExchangeLiar, DoesNotHoldUpItsReducer) {
  Swarm swarm(SwarmSettings{});
  for (const char* name : {"p1", "p2", "p3"}) swarm.Add(name);
  swarm.world.AddProcess("liar");
  // It has signed for what nobody can decode.
  Contribution spoiled = *swarm.peer("p3").contribution;
  spoiled.chunks[1] = WithNanScale(spoiled.chunks[1]);
  spoiled.digests[1] = Sha256(spoiled.chunks[1].span());
  SetNorms(std::vector<ChunkNorms>(spoiled.norms), &spoiled);
  swarm.peer("p3").contribution = std::make_shared<const Contribution>(std::move(spoiled));
  const v1::Plan plan = swarm.MakePlan({"p1", "p2", "p3"}, {"p1"});
  swarm.Give("p1", plan);
  swarm.Give("p2", plan);
  Liar liar(swarm);
  liar.Open(plan);
  liar.Send(0, 1, swarm.peer("p3").contribution->chunks[0]);
  liar.Send(1, 1, swarm.peer("p3").contribution->chunks[1]);
  ASSERT_TRUE(OthersComplete(swarm)) << swarm.world.LogText();
  swarm.CheckOutcomes({"p1", "p2"}, plan, {"p1", "p2"});
  // It may come back for the results, though nothing more is taken from it.
  ASSERT_EQ(liar.closed.size(), 1u);
  liar.results = 0;
  Liar again(swarm);
  again.Open(plan);
  again.Send(2, 1, swarm.peer("p3").contribution->chunks[2]);
  swarm.world.RunFor(absl::Seconds(1));
  EXPECT_EQ(again.results, static_cast<int>(swarm.grid.chunks()));
  EXPECT_TRUE(again.closed.empty());
}

// Would break: a reducer would average what its contributor has not signed for, and could be blamed
// for the mean that came of it.
TEST(ExchangeLiar, AChunkThatIsNotTheRootsIsRefused) {
  LiarScene scene(false, {"p1"});
  Swarm& swarm = scene.swarm;
  Liar& liar = scene.liar;
  liar.Open(scene.plan);
  liar.Send(0, 1, swarm.peer("p3").contribution->chunks[0]);
  liar.Send(1, 1, swarm.peer("p2").contribution->chunks[1]);  // sound, and not its own
  ASSERT_TRUE(OthersComplete(swarm)) << swarm.world.LogText();
  swarm.CheckOutcomes({"p1", "p2"}, scene.plan, {"p1", "p2"});
  ASSERT_EQ(swarm.peer("p1").refused.size(), 1u);
  EXPECT_EQ(swarm.peer("p1").refused[0].contributor(), "p3");
  EXPECT_EQ(swarm.peer("p1").refused[0].chunk(), 1u);
  EXPECT_FALSE(swarm.peer("p1").refused[0].reason().empty());
  ASSERT_EQ(liar.closed.size(), 1u);
  EXPECT_NE(liar.closed[0].message().find("leaves"), std::string::npos) << liar.closed[0];
  EXPECT_TRUE(swarm.peer("p2").refused.empty());
}

// Would break: whoever averages would take an update for a contributor's that it has not signed; or
// everybody would check what only the reducers need, which costs the square of the peers.
TEST(ExchangeLiar, WhoAveragesTakesNoRootThatIsNotSigned) {
  Swarm swarm(SwarmSettings{});
  const Names names = {"p1", "p2", "p3"};
  for (const std::string& name : names) swarm.Add(name);
  v1::Plan plan = swarm.MakePlan(names, {"p1"});
  for (const std::string& name : names) Swarm::Sign(&plan, name, name, name);
  Swarm::Sign(&plan, "p3", "p3", "p2");
  for (const std::string& name : names) swarm.Give(name, plan);
  ASSERT_TRUE(swarm.world.RunUntil([&] { return swarm.Complete(names, 1); }, absl::Seconds(5)))
      << swarm.world.LogText();
  swarm.CheckOutcomes(names, plan, {"p1", "p2"});
  EXPECT_EQ(swarm.peer("p2").outcomes.at(1).records.sets(0).contributors(), "\x03");
  ASSERT_EQ(swarm.peer("p1").refused.size(), 1u);
  EXPECT_EQ(swarm.peer("p1").refused[0].contributor(), "p3");
  EXPECT_NE(swarm.peer("p1").refused[0].reason().find("not signed by its key"), std::string::npos);
  EXPECT_TRUE(swarm.peer("p2").refused.empty());
  // A relay averages, too.
  Swarm relayed(SwarmSettings{});
  const Names more = {"p1", "p2", "p3", "p4"};
  for (const std::string& name : more) relayed.Add(name);
  plan = relayed.MakePlan(more, {"p1"});
  for (const std::string& name : more) Swarm::Sign(&plan, name, name, name);
  Swarm::Sign(&plan, "p4", "p4", "p2");
  Swarm::AddRelay(&plan, 0, "p3", {"p3", "p4"});
  for (const std::string& name : more) relayed.Give(name, plan);
  ASSERT_TRUE(relayed.world.RunUntil([&] { return relayed.Complete(more, 1); }, absl::Seconds(5)))
      << relayed.world.LogText();
  relayed.CheckOutcomes(more, plan, {"p1", "p2", "p3"});
  ASSERT_EQ(relayed.peer("p3").refused.size(), 1u);
  EXPECT_EQ(relayed.peer("p3").refused[0].contributor(), "p4");
  EXPECT_TRUE(relayed.peer("p1").refused.empty());
}

// Would break: an update of any length would pass for a short one, and be scaled by nothing.
TEST(ExchangeLiar, ALengthThatIsNotTheUpdatesIsRefused) {
  for (const bool in_leaves : {true, false}) {
    SCOPED_TRACE(in_leaves);
    Swarm swarm(SwarmSettings{});
    for (const char* name : {"p1", "p2", "p3"}) swarm.Add(name);
    swarm.world.AddProcess("liar");
    Contribution shorter = *swarm.peer("p3").contribution;
    std::vector<ChunkNorms> norms = shorter.norms;
    norms[1].squared_norm /= 2;
    if (in_leaves) SetNorms(norms, &shorter);
    shorter.norms = norms;
    swarm.peer("p3").contribution = std::make_shared<const Contribution>(shorter);
    const v1::Plan plan = swarm.MakePlan({"p1", "p2", "p3"}, {"p1"});
    swarm.Give("p1", plan);
    swarm.Give("p2", plan);
    Liar liar(swarm);
    liar.Open(plan);
    for (uint32_t c = 0; c < swarm.grid.chunks(); ++c) liar.Send(c, 1, shorter.chunks[c]);
    ASSERT_TRUE(OthersComplete(swarm)) << swarm.world.LogText();
    ASSERT_EQ(swarm.peer("p1").refused.size(), 1u);
    EXPECT_EQ(swarm.peer("p1").refused[0].contributor(), "p3");
    EXPECT_NE(swarm.peer("p1").refused[0].reason().find("leaves say"), std::string::npos);
    EXPECT_EQ(swarm.peer("p1").refused[0].chunk(), in_leaves ? 1u : 0u);
  }
}

// Would break: whoever says nothing of its chunks, or says it of others, would be averaged unseen.
TEST(ExchangeLiar, LeavesComeFirstAndMakeTheRoot) {
  for (int lie = 0; lie < 5; ++lie) {
    SCOPED_TRACE(lie);
    LiarScene scene(false, {"p1"});
    Swarm& swarm = scene.swarm;
    Liar& liar = scene.liar;
    const v1::Plan& plan = scene.plan;
    const std::string& leaves = swarm.peer("p3").contribution->leaves;
    liar.OpenWithout(plan, "p3", "p1");
    if (lie == 1) liar.SendLeaves(swarm.peer("p2").contribution->leaves);
    if (lie == 2) liar.SendLeaves(leaves + std::string(kLeafBytes, 'x'));
    if (lie == 3) liar.SendLeaves(leaves.substr(kLeafBytes));
    if (lie == 4) liar.SendLeaves("");
    liar.Send(0, 1, swarm.peer("p3").contribution->chunks[0]);
    swarm.world.RunFor(absl::Milliseconds(500));
    ASSERT_EQ(liar.closed.size(), 1u);
    EXPECT_TRUE(absl::IsInvalidArgument(liar.closed[0])) << liar.closed[0];
    // In two pieces they are as good as in one, and what was refused before stays refused.
    Swarm honest(SwarmSettings{});
    for (const char* name : {"p1", "p2", "p3"}) honest.Add(name);
    honest.world.AddProcess("liar");
    honest.Give("p1", plan);
    honest.Give("p2", plan);
    Liar slow(honest);
    slow.OpenWithout(plan, "p3", "p1");
    slow.SendLeaves(leaves.substr(0, 3 * kLeafBytes));
    slow.SendLeaves(leaves.substr(3 * kLeafBytes));
    for (uint32_t c = 0; c < honest.grid.chunks(); ++c) {
      slow.Send(c, 1, honest.peer("p3").contribution->chunks[c]);
    }
    ASSERT_TRUE(honest.world.RunUntil(
        [&] {
          return honest.Complete({"p1", "p2"}, 1);
        },
        absl::Seconds(5)));
    honest.CheckOutcomes({"p1", "p2"}, plan, {"p1", "p2", "p3"});
  }
}

// Would break: attempts would mix; or a peer that hears of a plan a little early would be taken for
// a liar.
TEST(ExchangeLiar, AttemptsNeverMix) {
  LiarScene scene(false);
  scene.plan.mutable_shards(0)->set_attempt(1);
  scene.liar.Open(scene.plan);
  scene.liar.Send(0, 9, scene.swarm.peer("p3").contribution->chunks[0]);
  scene.swarm.world.RunFor(absl::Seconds(1));
  EXPECT_TRUE(scene.liar.closed.empty());  // it may be early
  scene.swarm.world.RunFor(absl::Seconds(2));
  ASSERT_EQ(scene.liar.closed.size(), 1u);  // it was not
  EXPECT_TRUE(absl::IsFailedPrecondition(scene.liar.closed[0]));

  Liar old(scene.swarm);
  old.Open(scene.plan);
  old.Send(0, 0,
           scene.swarm.peer("p2")
               .contribution->chunks[0]);  // of another attempt, other bytes: no effect
  for (uint32_t c = 0; c < scene.swarm.grid.chunks() / 2; ++c) {
    old.Send(c, 1, scene.swarm.peer("p3").contribution->chunks[c]);
    old.Send(
        c, 1,
        scene.swarm.peer("p2").contribution->chunks[c]);  // a duplicate with other bytes: no effect
  }
  scene.swarm.world.RunFor(absl::Milliseconds(100));
  const v1::Plan next = Swarm::Revise(scene.plan, "p3", "p1");
  scene.swarm.Give("p1", next);
  scene.swarm.Give("p2", next);
  ASSERT_TRUE(scene.swarm.world.RunUntil(
      [&] {
        return scene.swarm.Complete({"p1", "p2"}, 2);
      },
      absl::Seconds(5)));
  scene.swarm.CheckOutcomes({"p1", "p2"}, next, {"p1", "p2"});
  const std::string set = scene.swarm.peer("p1").outcomes.at(2).records.sets(0).contributors();
  EXPECT_EQ(set[0], 7);  // p3's true chunks counted
}

// Would break: whoever can dial could put chunks into the mean.
TEST(ExchangeLiar, StrangersMayNotContribute) {
  LiarScene scene(false);
  scene.liar.Open(scene.plan, "stranger");
  scene.liar.Send(0, 1, scene.swarm.peer("p3").contribution->chunks[0]);
  scene.swarm.world.RunFor(absl::Milliseconds(500));
  ASSERT_EQ(scene.liar.closed.size(), 1u);
  EXPECT_TRUE(absl::IsInvalidArgument(scene.liar.closed[0]));
  Liar unnamed(scene.swarm);
  unnamed.Open(scene.plan, "../P3");
  scene.swarm.world.RunFor(absl::Milliseconds(500));
  ASSERT_EQ(unnamed.closed.size(), 1u);
  EXPECT_TRUE(absl::IsInvalidArgument(unnamed.closed[0]));
}

// Would break: a reducer that lies would crash its contributors, or make them commit what nobody
// can decode.
TEST(ExchangeLiar, AReducerThatLiesIsReported) {
  for (int lie = 0; lie < 5; ++lie) {
    SCOPED_TRACE(lie);
    Swarm swarm(SwarmSettings{});
    for (const char* name : {"p1", "p2"}) swarm.Add(name);
    swarm.world.AddProcess("liar");
    v1::Plan plan = swarm.MakePlan({"p1", "p2"}, {"p1", "liar"});
    const uint32_t first = plan.shards(1).first_chunk();
    std::vector<std::unique_ptr<Call>> calls;
    auto listener = swarm.world.process("liar").env().transport.Listen(
        Swarm::Address("liar"), [&](const std::string&, std::unique_ptr<Call> call) {
          call->Start({nullptr, nullptr, nullptr});
          v1::FromReducer message;
          message.mutable_chunk()->set_attempt(1);
          message.mutable_chunk()->set_chunk(first);
          message.mutable_chunk()->set_revision(1);
          message.mutable_chunk()->set_contributors(std::string(1, '\x03'));
          SharedBytes payload = swarm.peer("p1").contribution->chunks[first];
          if (lie == 0) payload = WithNanScale(payload);
          if (lie == 1) payload = SharedBytes(std::string(100000, 'x'));
          if (lie == 2) message.mutable_chunk()->set_contributors(std::string(1, '\x07'));
          if (lie == 3) message.mutable_chunk()->set_chunk(0);  // p1's, not the liar's
          if (lie == 4) message.mutable_chunk()->set_chunk(1u << 31);
          call->Write(Pack(message, payload));
          calls.push_back(std::move(call));
        });
    ASSERT_TRUE(listener.ok());
    swarm.Give("p2", plan);
    swarm.world.RunFor(absl::Milliseconds(100));
    ASSERT_GE(swarm.peer("p2").unreachable.size(), 1u);
    EXPECT_EQ(swarm.peer("p2").unreachable[0].first, "liar");
    EXPECT_TRUE(absl::IsInvalidArgument(swarm.peer("p2").unreachable[0].second));
  }
}

// Would break: an exchange that can never end would be waited for until its deadline, without a
// reason.
TEST(ExchangeLiar, AMeanThatCannotBeMadeFailsLoudly) {
  Swarm swarm(SwarmSettings{});
  swarm.Add("p1", false);
  swarm.Add("p3");
  swarm.world.AddProcess("liar");
  const v1::Plan plan = swarm.MakePlan({"p3"}, {"p1"});
  swarm.Give("p1", plan);
  Liar liar(swarm);
  liar.Open(plan);
  liar.Send(0, 1, WithNanScale(swarm.peer("p3").contribution->chunks[0]));
  swarm.world.RunFor(absl::Milliseconds(500));
  ASSERT_EQ(swarm.peer("p1").failed.size(), 1u);
  EXPECT_NE(swarm.peer("p1").failed[0].message().find("nobody contributed"), std::string::npos);
  EXPECT_EQ(swarm.world.LogCount("exchange failed"), 1u);

  SwarmSettings huge;
  huge.codec = "fp32";
  Swarm overflow(huge);
  for (const char* name : {"p1", "p2"}) {
    Swarm::Peer& peer = overflow.Add(name);
    peer.values.assign(huge.elements, 3e38f);
    peer.contribution = std::make_shared<const Contribution>(
        EncodeContribution(overflow.grid, *overflow.codec, Rounding(), peer.values).value());
  }
  const v1::Plan sum = overflow.MakePlan({"p1", "p2"}, {"p1"});
  overflow.Give("p1", sum);
  overflow.Give("p2", sum);
  overflow.world.RunFor(absl::Milliseconds(500));
  ASSERT_EQ(overflow.peer("p1").failed.size(), 1u);
  EXPECT_TRUE(absl::IsInvalidArgument(overflow.peer("p1").failed[0]));
}

}  // namespace
}  // namespace atolld
