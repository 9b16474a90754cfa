// Several streams between two peers.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/exchange/chunk_work.h"
#include "daemon/exchange/lane.h"
#include "gtest/gtest.h"
#include "tests/unit/daemon/exchange/swarm.h"

namespace atolld {
namespace {

using Names = std::vector<std::string>;

// Would break: a chunk that no lane carries would be waited for, one that two carry sent twice.
TEST(Lane, EveryChunkHasExactlyOne) {
  for (uint32_t count = 1; count <= Lane::kMost; ++count) {
    for (uint32_t chunk = 0; chunk < 100; ++chunk) {
      int carriers = 0;
      for (uint32_t number = 0; number < count; ++number) {
        const Lane lane = {number, count};
        EXPECT_TRUE(lane.Valid());
        carriers += lane.Carries(chunk) ? 1 : 0;
      }
      EXPECT_EQ(carriers, 1);
    }
  }
  EXPECT_FALSE((Lane{0, 0}.Valid()));
  EXPECT_FALSE((Lane{2, 2}.Valid()));
  EXPECT_FALSE((Lane{0, Lane::kMost + 1}.Valid()));
}

// Would break: other bits with more connections, chunks that are sent on two of them, or a relay
// whose partial means leave on a lane that nobody reads.
TEST(ExchangeLanes, GiveTheSameMeanForTheSameBytes) {
  std::string one_lane;
  uint64_t one_lane_bytes = 0;
  for (const uint32_t lanes : {1u, 3u, Lane::kMost}) {
    SwarmSettings settings;
    settings.lanes = lanes;
    Swarm swarm(settings);
    const Names names = {"p1", "p2", "p3"};
    for (const std::string& name : names) swarm.Add(name);
    const v1::Plan plan = swarm.MakePlan(names, names);
    for (const std::string& name : names) swarm.Give(name, plan);
    ASSERT_TRUE(swarm.world.RunUntil([&] { return swarm.Complete(names, plan.revision()); },
                                     absl::Seconds(60)))
        << swarm.world.LogText();
    swarm.CheckOutcomes(names, plan, names);
    const std::string payload(swarm.peer("p1").outcomes.at(1).payload.str());
    uint64_t bytes = 0;
    for (const std::string& name : names) bytes += swarm.peer(name).traffic.sent_bytes;
    if (lanes == 1) {
      one_lane = payload;
      one_lane_bytes = bytes;
    }
    EXPECT_EQ(payload, one_lane) << lanes;
    // An Open each, with a bit for each chunk, and the leaves.
    const uint64_t leaves = uint64_t{swarm.grid.chunks()} * kLeafBytes;
    EXPECT_LT(bytes, one_lane_bytes + 6 * lanes * (200 + leaves)) << lanes;
  }
}

// Would break: thousands of streams for one peer, or an index outside of every table.
TEST(ExchangeLanes, ThatMakeNoSenseAreRefused) {
  Swarm swarm(SwarmSettings{});
  const Names names = {"p1", "p2"};
  for (const std::string& name : names) swarm.Add(name);
  swarm.world.AddProcess("x");
  const v1::Plan plan = swarm.MakePlan(names, names);
  swarm.Give("p1", plan);
  for (const auto& [lane, lanes] : std::vector<std::pair<uint32_t, uint32_t>>{
           {2, 2}, {1, 0}, {0, Lane::kMost + 1}, {0xffffffff, 0xffffffff}}) {
    absl::Status closed;
    auto call = swarm.world.process("x").env().transport.Dial(Swarm::Address("p1"), kExchangeMethod,
                                                              absl::InfiniteDuration());
    call->Start({nullptr, nullptr, [&](absl::Status status) { closed = std::move(status); }});
    v1::ToReducer message;
    message.mutable_open()->set_run_id(kRun);
    message.mutable_open()->set_epoch(plan.epoch());
    message.mutable_open()->set_version(plan.version());
    message.mutable_open()->set_contributor("x");
    message.mutable_open()->set_lane(lane);
    message.mutable_open()->set_lanes(lanes);
    call->Write(Pack(message));
    call->Read();
    swarm.world.RunFor(absl::Milliseconds(50));
    EXPECT_TRUE(absl::IsInvalidArgument(closed)) << lane << " of " << lanes << ": " << closed;
  }
}

}  // namespace
}  // namespace atolld
