#include "daemon/exchange/stream_flow.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/exchange/chunk_work.h"
#include "gtest/gtest.h"
#include "tests/unit/daemon/exchange/regions.h"
#include "tests/unit/daemon/exchange/swarm.h"

namespace atolld {
namespace {

using Names = std::vector<std::string>;

constexpr size_t kChunk = 1000;
const absl::Time kBegin = absl::UnixEpoch();

// Would break: contributions would fill all buffers on the way, and means would wait behind them.
TEST(SendWindow, StopsAtTheFloorWhileNothingComesBack) {
  SendWindow window({10 * kChunk, 4});
  uint32_t chunk = 0;
  for (; window.Allows(chunk); ++chunk) window.OnSent(chunk, kChunk, kBegin);
  EXPECT_EQ(chunk, 10u);
  window.Forget(3);
  EXPECT_TRUE(window.Allows(chunk));
  EXPECT_EQ(window.in_flight_bytes(), 9 * kChunk);
}

// Would break: streams would run further ahead of each other than keeps a line busy, and the last
// of them be alone on it at the end.
TEST(SendWindow, HasHalfTheFloorOnceTheWayIsMeasured) {
  SendWindow window({10 * kChunk, 4});
  for (uint32_t chunk = 0; chunk < 10; ++chunk) window.OnSent(chunk, kChunk, kBegin);
  EXPECT_EQ(window.limit(), 10 * kChunk);
  window.OnMean(0, kBegin + absl::Seconds(1));
  EXPECT_EQ(window.limit(), 5 * kChunk);
  EXPECT_FALSE(window.Allows(10));
}

// Would break: a stream of large chunks would send one a round trip.
TEST(SendWindow, HoldsSeveralChunksHoweverLarge) {
  SendWindow window({kChunk, 4});
  uint32_t chunk = 0;
  for (; window.Allows(chunk); ++chunk) window.OnSent(chunk, 100 * kChunk, kBegin);
  EXPECT_EQ(chunk, 4u);
}

// Would break: peers would wait for each other for ever: one whose window is full of later chunks
// for a chunk of another, and that one for this one's.
TEST(SendWindow, LetsTheLowestChunkGoHoweverFull) {
  SendWindow window({2 * kChunk, 1});
  window.OnSent(7, kChunk, kBegin);
  window.OnSent(9, kChunk, kBegin);
  EXPECT_FALSE(window.Allows(10));
  EXPECT_FALSE(window.Allows(8));
  EXPECT_TRUE(window.Allows(6));
}

// Would break: a fat long line would be as slow as a short one: 2 MB/s at 200 ms hold 400 kB.
TEST(SendWindow, GrowsWithWhatTheWayHolds) {
  constexpr absl::Duration kLatency = absl::Milliseconds(200);
  constexpr double kRate = 2e6;
  SendWindow window({16 * kChunk, 4});
  // The way: a chunk a turn, at the line's rate, and the latency after it.
  absl::Time line_free = kBegin;
  absl::Time now = kBegin;
  std::map<uint32_t, absl::Time> due;
  uint32_t next = 0;
  while (next < 50000) {
    for (; window.Allows(next); ++next) {
      line_free = std::max(line_free, now) + absl::Seconds(kChunk / kRate);
      due[next] = line_free + kLatency;
      window.OnSent(next, kChunk, now);
    }
    now = due.begin()->second;
    window.OnMean(due.begin()->first, now);
    due.erase(due.begin());
  }
  const double held = kRate * absl::ToDoubleSeconds(kLatency);
  // What the last chunk in flight adds to the latency counts as held, too.
  EXPECT_GT(static_cast<double>(window.limit()), held);
  EXPECT_LT(static_cast<double>(window.limit()), 1.4 * held);
}

// Would break: the other streams would stand still with one whose reducer has died until the plan
// moves its shard, or not wait for one that is merely far away.
TEST(SendWindow, StallsWhenNoMeanComesForFourLatencies) {
  SendWindow window({16 * kChunk, 4});
  EXPECT_FALSE(window.Stalls(kBegin + absl::Minutes(1)));  // nothing is awaited
  window.OnSent(0, kChunk, kBegin);
  EXPECT_FALSE(window.Stalls(kBegin + SendWindow::kLeastPatience));
  EXPECT_TRUE(window.Stalls(kBegin + 1.1 * SendWindow::kLeastPatience));
  const absl::Duration latency = absl::Seconds(2);
  window.OnMean(0, kBegin + latency);
  const absl::Time again = kBegin + absl::Minutes(1);
  window.OnSent(1, kChunk, again);
  EXPECT_FALSE(window.Stalls(again + 4 * latency));
  EXPECT_TRUE(window.Stalls(again + 4.1 * latency));
}

// Would break: a stream would let the others run further ahead the more it has in flight.
TEST(SendWindow, TellsHowManyChunksMoreMayGo) {
  SendWindow window({16 * kChunk, 4});
  EXPECT_EQ(window.FreeChunks(), 4);  // of a size that is not known yet
  for (uint32_t chunk = 0; chunk < 10; ++chunk) window.OnSent(chunk, kChunk, kBegin);
  EXPECT_EQ(window.FreeChunks(), 6);
  window.OnMean(0, kBegin + absl::Seconds(1));  // half the floor from now on
  EXPECT_EQ(window.FreeChunks(), -1);
}

// Would break: what a broken call had in flight would count for ever.
TEST(SendWindow, BeginsAnewWithEachCall) {
  SendWindow window({2 * kChunk, 1});
  window.OnSent(0, kChunk, kBegin);
  window.OnSent(1, kChunk, kBegin);
  EXPECT_FALSE(window.Allows(2));
  window.Forget(0);
  EXPECT_TRUE(window.Allows(2));
  window.Restart();
  EXPECT_EQ(window.in_flight_bytes(), 0u);
  window.OnMean(1, kBegin + absl::Seconds(1));  // of the call before: nothing to count
  EXPECT_EQ(window.in_flight_bytes(), 0u);
}

// Several streams between two peers.

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

// That a contributor's streams keep in step, and wait for none that leads nowhere.

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

const auto kNobodyStalls = [](StreamPace::Stream) { return false; };

// Would break: streams that run ahead of the others, or that wait though nobody holds them up.
TEST(StreamPace, LetsNobodyRunAhead) {
  StreamPace pace;
  EXPECT_TRUE(pace.MayGo(1, 0.9, kNobodyStalls));  // alone
  pace.SetReach(1, 0.5);
  EXPECT_TRUE(pace.MayGo(1, 0.9, kNobodyStalls));  // nobody holds up itself
  EXPECT_TRUE(pace.MayGo(2, 0.5, kNobodyStalls));
  EXPECT_FALSE(pace.MayGo(2, 0.6, kNobodyStalls));
  EXPECT_FALSE(pace.MayGo(3, 0.7, kNobodyStalls));
  EXPECT_EQ(pace.TakeFree(kNobodyStalls), std::nullopt);
  pace.SetReach(1, 0.65);
  EXPECT_EQ(pace.TakeFree(kNobodyStalls), StreamPace::Stream{2});
  EXPECT_EQ(pace.TakeFree(kNobodyStalls), std::nullopt);  // it waits no longer, and 3 waits on
  pace.SetReach(1, StreamPace::kFree);
  EXPECT_EQ(pace.TakeFree(kNobodyStalls), StreamPace::Stream{3});
  // One that holds up all others may go, whatever it has sent.
  pace.SetReach(4, 0.8);
  EXPECT_FALSE(pace.MayGo(5, 0.85, kNobodyStalls));
  pace.SetReach(6, 0.1);
  pace.SetReach(4, 0.05);
  EXPECT_FALSE(pace.MayGo(4, 0.9, kNobodyStalls));
  pace.SetReach(6, StreamPace::kFree);
  EXPECT_EQ(pace.TakeFree(kNobodyStalls), StreamPace::Stream{4});
  EXPECT_EQ(pace.TakeFree(kNobodyStalls), std::nullopt);
  pace.Forget(4);
  EXPECT_EQ(pace.TakeFree(kNobodyStalls), StreamPace::Stream{5});
}

// Would break: everybody would wait for a stream that leads nowhere; or for good no more for one
// that goes on.
TEST(StreamPace, NobodyWaitsForWhatStalls) {
  StreamPace pace;
  pace.SetReach(1, 0.1);
  pace.SetReach(2, 0.5);
  const auto first_stalls = [](StreamPace::Stream stream) { return stream == 1; };
  EXPECT_FALSE(pace.MayGo(3, 0.4, kNobodyStalls));
  EXPECT_EQ(pace.TakeFree(first_stalls), StreamPace::Stream{3});
  EXPECT_FALSE(pace.MayGo(3, 0.6, first_stalls));
  pace.SetReach(1, 0.1);
  EXPECT_FALSE(pace.MayGo(3, 0.4, kNobodyStalls));
}

// Streams that a peer looks at for each chunk that it sends, in an exchange of so many peers.
double LookedAtForAChunk(int peers) {
  SwarmSettings settings;
  settings.chunk_elements = 64;
  settings.elements = static_cast<uint64_t>(peers) * 8 * settings.chunk_elements;
  Swarm swarm(settings);
  Names names;
  for (int i = 0; i < peers; ++i) names.push_back(absl::StrCat("p", i));
  for (const std::string& name : names) swarm.Add(name);
  const v1::Plan plan = swarm.MakePlan(names, names);
  for (const std::string& name : names) swarm.Give(name, plan);
  EXPECT_TRUE(swarm.world.RunUntil([&] { return swarm.Complete(names, 1); }, absl::Minutes(1)));
  const uint64_t looked_at = swarm.peer("p0").node->exchange->figures().looked_at;
  return static_cast<double>(looked_at) / static_cast<double>(8 * (peers - 1));
}

// Would break: a loop that looks at all of a peer's streams whenever one may send: with as many
// peers as chunks that is the square of the peers for each of them.
TEST(ExchangePace, AChunkCostsNoMoreWhereThereAreMoreStreams) {
  const double of_few = LookedAtForAChunk(5);
  const double of_many = LookedAtForAChunk(25);
  EXPECT_GT(of_few, 1);
  EXPECT_LT(of_many, 1.5 * of_few) << of_few << " of 5 peers";
}

}  // namespace
}  // namespace atolld
