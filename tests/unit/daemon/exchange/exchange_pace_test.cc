// That a contributor's streams keep in step, and wait for none that leads nowhere.
#include "gtest/gtest.h"
#include "tests/unit/daemon/exchange/regions.h"
#include "tests/unit/daemon/exchange/swarm.h"

namespace atolld {
namespace {

constexpr uint32_t kShardChunks = 100;

SwarmSettings Settings(uint64_t shards) {
  SwarmSettings settings;
  settings.elements = shards * kShardChunks * settings.chunk_elements;
  settings.send_floor = {1, 4};
  settings.failure_timeout = absl::Minutes(1);
  settings.sim.network.link.latency = absl::Milliseconds(5);
  return settings;
}

uint64_t AveragedBy(Swarm& swarm, const std::string& name) {
  return swarm.peer(name).node->exchange->figures().averaged;
}

// Would break: a shard that nothing slows down would be finished while another has just begun, and
// its part of everybody's line would stand idle from then on.
TEST(ExchangePace, ShardsEndTogether) {
  Swarm swarm(Settings(3));
  const std::vector<std::string> names = {"p1", "p2", "p3"};
  for (const std::string& name : names) swarm.Add(name);
  SimLinkSettings slow;
  slow.latency = absl::Milliseconds(5);
  slow.bytes_per_second = 20000;
  swarm.world.network().SetLink("p1", "p3", slow);
  const v1::Plan plan = swarm.MakePlan(names, names);
  for (const std::string& name : names) swarm.Give(name, plan);
  ASSERT_TRUE(swarm.world.RunUntil([&] { return AveragedBy(swarm, "p2") == kShardChunks; },
                                   absl::Minutes(1)));
  EXPECT_GE(AveragedBy(swarm, "p1"), kShardChunks * 8 / 10);
  EXPECT_GE(AveragedBy(swarm, "p3"), kShardChunks * 8 / 10);
  ASSERT_TRUE(swarm.world.RunUntil([&] { return swarm.Complete(names, 1); }, absl::Minutes(1)));
  swarm.CheckOutcomes(names, plan, names);
}

// Would break: one reducer's death would hold up all shards until the plan moves its own.
TEST(ExchangePace, NobodyWaitsForAReducerThatIsDead) {
  Swarm swarm(Settings(3));
  const std::vector<std::string> names = {"p1", "p2"};
  for (const std::string& name : names) swarm.Add(name);
  swarm.Add("aggregator", false);
  const v1::Plan plan = swarm.MakePlan(names, {"p1", "p2", "aggregator"});
  for (const auto& [name, peer] : swarm.peers) swarm.Give(name, plan);
  ASSERT_TRUE(
      swarm.world.RunUntil([&] { return AveragedBy(swarm, "aggregator") > 0; }, absl::Minutes(1)));
  swarm.world.network().BlackHole("p1", "aggregator");
  swarm.world.network().BlackHole("p2", "aggregator");
  const auto others_done = [&] {
    return AveragedBy(swarm, "p1") == kShardChunks && AveragedBy(swarm, "p2") == kShardChunks;
  };
  EXPECT_TRUE(swarm.world.RunUntil(others_done, 3 * SendWindow::kLeastPatience));
}

// Would break: where relays stand between, a stream carries several shards one after the other, and
// partial means when they are there: streams in step would wait in a circle until one stalls.
TEST(ExchangePace, StreamsToRelaysGoTheirOwnPace) {
  Regions regions(Settings(2));
  const absl::Duration began = regions.swarm.world.now();
  regions.GiveAll(regions.plan);
  ASSERT_TRUE(regions.Finish(regions.names, 1));
  // Windows of four chunks take 1.4 s; to find that a stream stalls takes kLeastPatience more.
  EXPECT_LT(regions.swarm.world.now() - began, absl::Seconds(1.7));
}

}  // namespace
}  // namespace atolld
