#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/unit/daemon/exchange/liar.h"
#include "tests/unit/daemon/exchange/regions.h"
#include "tests/unit/daemon/exchange/swarm.h"

namespace atolld {
namespace {

// Would break: a round would hang when relays come and go under one attempt and some peers hear of
// every second revision only.
TEST(ExchangeRoute, MayComeAndGo) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    Regions regions(seed + 1000);
    Swarm& swarm = regions.swarm;
    SimRandom random(seed);
    regions.GiveAll(regions.plan);
    v1::Plan flat = regions.plan;
    for (v1::Shard& shard : *flat.mutable_shards()) shard.clear_relays();
    const uint32_t last = 6;
    for (uint32_t revision = 2; revision <= last; ++revision) {
      v1::Plan next = revision % 2 == 0 ? flat : regions.plan;
      if (revision == 3 && random.Below(2) == 0) {
        next.mutable_shards(1)->clear_relays();
        Swarm::AddRelay(&next, 1, "p3", regions.west);
      }
      next.set_revision(revision);
      swarm.world.RunFor(absl::Microseconds(random.Below(25000)));
      for (const std::string& name : regions.names) {
        if (revision != last && random.Below(3) == 0) continue;
        swarm.world.At(absl::Microseconds(random.Below(20000)),
                       [&swarm, name, next] { swarm.Give(name, next); });
      }
    }
    ASSERT_TRUE(regions.Finish(regions.names, last)) << swarm.world.LogText();
    flat.set_revision(last);
    swarm.CheckOutcomes(regions.names, flat, {});
    for (const std::string& name : regions.names) {
      EXPECT_TRUE(swarm.peer(name).unreachable.empty()) << swarm.world.LogText();
      EXPECT_EQ(swarm.world.LogCount("refused"), 0u) << swarm.world.LogText();
    }
  }
}

// Would break: what a server had in its queue for a peer when the routes changed would be taken for
// sent when they change back, and the peer would wait for ever.
TEST(ExchangeRoute, ResultsLeftInAQueueAreOfferedAgain) {
  SwarmSettings settings;
  settings.codec = "fp32";
  settings.elements = 1 << 20;
  settings.chunk_elements = 32768;
  settings.sim.network.link.bytes_per_second = 2e6;
  Swarm swarm(settings);
  for (const char* name : {"p1", "p2", "p3"}) swarm.Add(name);
  swarm.world.AddProcess("liar");
  v1::Plan plan = swarm.MakePlan({"p1", "p2", "p3"}, {"p1"});
  plan.add_lost("p2");
  plan.add_lost("p3");  // it only listens
  Liar listener(swarm);
  swarm.Give("p1", plan);
  listener.Open(plan);
  ASSERT_TRUE(swarm.world.RunUntil([&] { return listener.results > 2; }, absl::Seconds(5)));
  ASSERT_TRUE(swarm.Complete({"p1"}, 1));
  v1::Plan away = plan;
  away.set_revision(2);
  away.clear_lost();
  away.add_lost("p3");
  Swarm::AddRelay(&away, 0, "p2", {"p2", "p3"});
  swarm.Give("p1", away);
  swarm.world.RunFor(absl::Seconds(5));
  const int before = listener.results;
  EXPECT_LT(before, static_cast<int>(swarm.grid.chunks()));
  v1::Plan back = plan;
  back.set_revision(3);
  swarm.Give("p1", back);
  swarm.world.RunFor(absl::Seconds(5));
  EXPECT_EQ(listener.results, static_cast<int>(swarm.grid.chunks()));
}

// Would break: a result that was under way when the routes changed is dropped; when they change
// back its sender would never send it again.
TEST(ExchangeRoute, AResultThatWasPassedOverIsAskedForAgain) {
  Swarm swarm(SwarmSettings{});
  for (const char* name : {"p1", "p2", "p3"}) swarm.Add(name);
  swarm.world.AddProcess("relay");
  v1::Plan plan = swarm.MakePlan({"p1", "p2", "p3"}, {"p1"});
  plan.mutable_contributors(2)->set_address(Swarm::Address("relay"));
  Swarm::AddRelay(&plan, 0, "p3", {"p2", "p3"});
  // The relay keeps p2's stream in use under every revision: it reduces a shard of its own.
  plan.mutable_shards(0)->set_chunks(15);
  v1::Shard* own = plan.add_shards();
  own->set_first_chunk(15);
  own->set_chunks(1);
  own->set_reducer("p3");
  own->set_attempt(1);
  std::vector<std::unique_ptr<Call>> calls;
  auto listener = swarm.world.process("relay").env().transport.Listen(
      Swarm::Address("relay"), [&](const std::string&, std::unique_ptr<Call> call) {
        call->Start({nullptr, nullptr, nullptr});
        calls.push_back(std::move(call));
      });
  ASSERT_TRUE(listener.ok());
  const auto tell = [&](uint32_t revision) {
    v1::FromReducer message;
    message.mutable_chunk()->set_attempt(1);
    message.mutable_chunk()->set_chunk(3);
    message.mutable_chunk()->set_contributors("\x07");
    message.mutable_chunk()->set_revision(revision);
    calls.back()->Write(Pack(message, swarm.peer("p1").contribution->chunks[3]));
    swarm.world.RunFor(absl::Milliseconds(200));
  };
  swarm.Give("p2", plan);
  swarm.world.RunFor(absl::Milliseconds(100));
  v1::Plan away = plan;
  away.set_revision(2);
  away.mutable_shards(0)->clear_relays();
  swarm.Give("p2", away);
  ASSERT_EQ(calls.size(), 1u);
  tell(1);
  EXPECT_EQ(calls.size(), 1u);
  EXPECT_EQ(swarm.peer("p2").node->exchange->figures().held_bytes, 0u);
  EXPECT_TRUE(swarm.peer("p2").unreachable.empty());
  v1::Plan back = plan;
  back.set_revision(3);
  swarm.Give("p2", back);
  swarm.world.RunFor(absl::Milliseconds(200));
  ASSERT_EQ(calls.size(), 2u);
  tell(3);
  EXPECT_GT(swarm.peer("p2").node->exchange->figures().held_bytes, 0u);
}

// Would break: a server that speaks of plans that never come would hold up its clients for ever.
TEST(ExchangeRoute, AResultWhosePlanNeverComesIsReported) {
  Swarm swarm(SwarmSettings{});
  for (const char* name : {"p1", "p2"}) swarm.Add(name);
  swarm.world.AddProcess("early");
  const v1::Plan plan = swarm.MakePlan({"p1", "p2"}, {"early"});
  std::vector<std::unique_ptr<Call>> calls;
  auto listener = swarm.world.process("early").env().transport.Listen(
      Swarm::Address("early"), [&](const std::string&, std::unique_ptr<Call> call) {
        call->Start({nullptr, nullptr, nullptr});
        v1::FromReducer message;
        message.mutable_chunk()->set_attempt(9);
        message.mutable_chunk()->set_contributors("\x03");
        call->Write(Pack(message, swarm.peer("p1").contribution->chunks[0]));
        calls.push_back(std::move(call));
      });
  ASSERT_TRUE(listener.ok());
  swarm.Give("p2", plan);
  swarm.world.RunFor(swarm.settings.failure_timeout / 2);
  EXPECT_TRUE(swarm.peer("p2").unreachable.empty());  // it may yet come
  swarm.world.RunFor(swarm.settings.failure_timeout);
  ASSERT_GE(swarm.peer("p2").unreachable.size(), 1u);
  EXPECT_EQ(swarm.peer("p2").unreachable[0].first, "early");
}

}  // namespace
}  // namespace atolld
