#include "daemon/exchange/exchange.h"

#include <cmath>
#include <string>
#include <vector>

#include "absl/base/casts.h"
#include "daemon/exchange/stream_flow.h"
#include "gtest/gtest.h"
#include "tests/unit/compression/test_values.h"
#include "tests/unit/daemon/exchange/swarm.h"

namespace atolld {
namespace {

using Names = std::vector<std::string>;

void RunToTheEnd(Swarm& swarm, const Names& names, const v1::Plan& plan) {
  for (const std::string& name : names) swarm.Give(name, plan);
  ASSERT_TRUE(swarm.world.RunUntil([&] { return swarm.Complete(names, plan.revision()); },
                                   absl::Seconds(60)))
      << swarm.world.LogText();
}

// Would break: the round itself; peers would hold different bits, or other bits than the header
// promises.
TEST(Exchange, GivesEverybodyTheWeightedMean) {
  for (const bool zstd : {false, true}) {
    for (const std::string& codec : CodecNames()) {
      SwarmSettings settings;
      settings.codec = codec;
      settings.zstd = zstd;
      Swarm swarm(settings);
      const Names names = {"p1", "p2", "p3"};
      for (const std::string& name : names) swarm.Add(name);
      const v1::Plan plan = swarm.MakePlan(names, names);
      RunToTheEnd(swarm, names, plan);
      swarm.CheckOutcomes(names, plan, names);
      for (const std::string& name : names) {
        EXPECT_TRUE(swarm.peer(name).unreachable.empty());
        EXPECT_TRUE(swarm.peer(name).failed.empty());
      }
    }
  }
}

// Would break: machines that flush denormals to zero, or a path that does, would make other bits
// than the rest; a round of tiny updates would be lost.
TEST(Exchange, TinyValuesCountToTheLastBit) {
  struct Case {
    const char* codec;
    int smallest;  // denormal of the codec: two to this
  };
  for (const Case& one : {Case{"fp32", -149}, Case{"bf16", -133}, Case{"fp16", -24}}) {
    for (const bool all : {false, true}) {  // or p1 alone
      SCOPED_TRACE(one.codec);
      SwarmSettings settings;
      settings.codec = one.codec;
      Swarm swarm(settings);
      const Names names = {"p1", "p2", "p3"};
      for (const std::string& name : names) {
        Swarm::Peer& peer = swarm.Add(name);
        if (!all && name != "p1") continue;
        for (size_t i = 0; i < peer.values.size(); ++i) {
          const double size = std::ldexp(static_cast<double>(i % 97 + 10), one.smallest);
          peer.values[i] = static_cast<float>(i % 2 == 0 ? size : -size);
        }
        peer.contribution = std::make_shared<const Contribution>(
            EncodeContribution(swarm.grid, *swarm.codec, Rounding(), peer.values).value());
      }
      const v1::Plan plan = swarm.MakePlan(names, names);
      RunToTheEnd(swarm, names, plan);
      swarm.CheckOutcomes(names, plan, names);
      if (!all) continue;
      const std::vector<SharedBytes> chunks =
          SplitPayload(swarm.grid, *swarm.codec, swarm.peer("p1").outcomes.at(1).payload).value();
      size_t at = 0;
      for (const SharedBytes& chunk : chunks) {
        std::vector<float> mean(swarm.grid.Elements(static_cast<uint32_t>(&chunk - &chunks[0])));
        ASSERT_TRUE(swarm.codec->Decode(chunk.span(), absl::MakeSpan(mean)).ok());
        for (const float value : mean) {
          ASSERT_NE(value, 0) << at;
          // Three times the same: off by the arithmetic's last bits at most.
          ASSERT_NEAR(value, swarm.peer("p1").values[at], 2 * std::ldexp(1.0, one.smallest)) << at;
          ++at;
        }
      }
      ASSERT_EQ(at, settings.elements);
    }
  }
}

// Would break: as above, where codes are drawn: the reducer's draw must be everybody's.
TEST(Exchange, RoundsStochasticallyByKeysThatAllKnow) {
  for (const char* codec : {"int4", "int8"}) {
    SwarmSettings settings;
    settings.codec = codec;
    settings.stochastic = true;
    Swarm swarm(settings);
    const Names names = {"p1", "p2", "p3"};
    for (const std::string& name : names) swarm.Add(name);
    const v1::Plan plan = swarm.MakePlan(names, names);
    RunToTheEnd(swarm, names, plan);
    swarm.CheckOutcomes(names, plan, names);
    settings.stochastic = false;
    Swarm nearest(settings);
    for (const std::string& name : names) nearest.Add(name);
    RunToTheEnd(nearest, names, plan);
    EXPECT_NE(nearest.peer("p1").outcomes.at(1).payload.str(),
              swarm.peer("p1").outcomes.at(1).payload.str());
  }
}

// Would break: a run with one peer left could not commit.
TEST(Exchange, WorksAlone) {
  Swarm swarm(SwarmSettings{});
  swarm.Add("p1");
  const v1::Plan plan = swarm.MakePlan({"p1"}, {"p1"});
  RunToTheEnd(swarm, {"p1"}, plan);
  swarm.CheckOutcomes({"p1"}, plan, {"p1"});
  EXPECT_EQ(swarm.peer("p1").traffic.sent_bytes, 0u);
}

// Would break: runs whose peers are all behind NAT, which stand on an aggregator; and stragglers
// that only receive.
TEST(Exchange, ServesAggregatorsAndPeersThatOnlyReceive) {
  Swarm swarm(SwarmSettings{});
  const Names contributors = {"p1", "p2"};
  for (const std::string& name : contributors) swarm.Add(name);
  swarm.Add("agg1", false);
  swarm.Add("agg2", false);
  swarm.Add("guest", false);
  const v1::Plan plan = swarm.MakePlan(contributors, {"agg1", "p2", "agg2"});
  const Names all = {"agg1", "agg2", "guest", "p1", "p2"};
  RunToTheEnd(swarm, all, plan);
  swarm.CheckOutcomes(all, plan, contributors);
}

// Would break: the figure that users are shown, and the promise of a quarter of fp32's bytes.
TEST(Exchange, CountsWhatItSendsAndReceives) {
  SwarmSettings settings;
  settings.elements = 64 * 1024;
  settings.chunk_elements = 4096;
  Swarm swarm(settings);
  const Names names = {"p1", "p2"};
  for (const std::string& name : names) swarm.Add(name);
  RunToTheEnd(swarm, names, swarm.MakePlan(names, names));
  for (const std::string& name : names) swarm.peer(name).node->exchange.reset();
  for (const std::string& name : names) {
    const std::string& other = name == "p1" ? names[1] : names[0];
    EXPECT_EQ(swarm.peer(name).traffic.sent_bytes, swarm.world.network().bytes_sent(name, other));
    // Half of the contribution goes up, half of the mean comes down: one payload in all.
    const double payload = 64.0 * 1024 * (1 + 4.0 / 256);
    EXPECT_LT(static_cast<double>(swarm.peer(name).traffic.sent_bytes), 1.02 * payload);
    EXPECT_EQ(swarm.peer(name).traffic.received_bytes, swarm.peer(other).traffic.sent_bytes);
  }
}

// Would break: a slow link would fill the memory of every peer that sends over it.
TEST(Exchange, HoldsBackOnASlowLink) {
  SwarmSettings settings;
  settings.codec = "fp32";
  settings.elements = 2 << 20;
  settings.chunk_elements = 32768;
  settings.sim.network.link.bytes_per_second = 2e6;
  Swarm swarm(settings);
  const Names names = {"p1", "p2"};
  for (const std::string& name : names) swarm.Add(name);
  const v1::Plan plan = swarm.MakePlan(names, {"p1"});
  RunToTheEnd(swarm, names, plan);
  swarm.CheckOutcomes(names, plan, names);
  EXPECT_GT(swarm.world.network().max_unsent_bytes(), kMaxUnsentBytes / 2);
  EXPECT_LE(swarm.world.network().max_unsent_bytes(), kMaxUnsentBytes + 32768 * 4 + 100);
  EXPECT_TRUE(swarm.peer("p2").unreachable.empty());
}

// Would break: means would wait for the whole shard, and the exchange would take twice as long.
TEST(Exchange, SendsResultsWhileContributionsAreStillOnTheWire) {
  SwarmSettings settings;
  settings.codec = "fp32";
  settings.elements = 1 << 20;
  settings.chunk_elements = 16384;
  settings.sim.network.link.bytes_per_second = 4e6;
  Swarm swarm(settings);
  const Names names = {"p1", "p2"};
  for (const std::string& name : names) swarm.Add(name);
  RunToTheEnd(swarm, names, swarm.MakePlan(names, {"p1"}));
  // 4 MiB up and 4 MiB down at 4 MB/s, full duplex: about one second if they overlap, two if not.
  EXPECT_LT(swarm.world.now(), absl::Milliseconds(1200));
}

// Would break: a peer whose plan comes a little later would cost the others a redial, or the round.
TEST(Exchange, HoldsEarlyStreamsUntilThePlanArrives) {
  Swarm swarm(SwarmSettings{});
  const Names names = {"p1", "p2", "p3"};
  for (const std::string& name : names) swarm.Add(name);
  const v1::Plan plan = swarm.MakePlan(names, names);
  swarm.Give("p1", plan);
  swarm.Give("p2", plan);
  swarm.world.RunFor(absl::Seconds(1));
  EXPECT_FALSE(swarm.Complete({"p1"}, 1));
  const size_t calls = swarm.world.network().open_calls();
  swarm.Give("p3", plan);
  ASSERT_TRUE(swarm.world.RunUntil([&] { return swarm.Complete(names, 1); }, absl::Seconds(1)));
  swarm.CheckOutcomes(names, plan, names);
  EXPECT_EQ(calls, 4u);  // p1 and p2 to each other and to p3, none broken
  EXPECT_EQ(swarm.world.network().open_calls(), 6u);
}

// Would break: peers would mix rounds, or wait for ever at one that is in another.
TEST(ExchangeServer, RefusesOldEntriesOtherRunsAndTooMany) {
  Swarm swarm(SwarmSettings{});
  const Names names = {"p1", "p2"};
  for (const std::string& name : names) swarm.Add(name);
  swarm.world.AddProcess("x");
  swarm.Give("p1", swarm.MakePlan(names, names));
  std::vector<std::unique_ptr<Call>> calls;
  std::vector<absl::StatusCode> codes;
  const auto open = [&](const std::string& run, uint64_t epoch, uint64_t version,
                        bool send_open = true) {
    auto call = swarm.world.process("x").env().transport.Dial(Swarm::Address("p1"), kExchangeMethod,
                                                              absl::InfiniteDuration());
    call->Start(
        {nullptr, nullptr, [&codes](absl::Status status) { codes.push_back(status.code()); }});
    v1::ToReducer message;
    if (send_open) {
      message.mutable_open()->set_run_id(run);
      message.mutable_open()->set_epoch(epoch);
      message.mutable_open()->set_version(version);
      message.mutable_open()->set_contributor("x");
    } else {
      message.mutable_chunk()->set_chunk(1);
    }
    call->Write(Pack(message));
    call->Read();
    calls.push_back(std::move(call));
    swarm.world.RunFor(absl::Milliseconds(5));
  };
  open("other", 3, 7);
  open(kRun, 3, 6);
  open(kRun, 2, 7);
  open(kRun, 3, 7, false);
  EXPECT_EQ(codes, (std::vector<absl::StatusCode>{
                       absl::StatusCode::kInvalidArgument, absl::StatusCode::kFailedPrecondition,
                       absl::StatusCode::kFailedPrecondition, absl::StatusCode::kInvalidArgument}));
  codes.clear();
  for (int i = 0; i < 257; ++i) open(kRun, 3, 8);
  EXPECT_EQ(codes, std::vector<absl::StatusCode>{absl::StatusCode::kResourceExhausted});
  codes.clear();
  swarm.world.RunFor(absl::Seconds(3));
  EXPECT_EQ(codes, std::vector<absl::StatusCode>(256, absl::StatusCode::kFailedPrecondition));
}

// Would break: a plan that no honest coordinator writes would crash the daemon.
TEST(Exchange, FailsLoudlyOnAPlanThatMakesNoSense) {
  for (int fault = 0; fault < 6; ++fault) {
    Swarm swarm(SwarmSettings{});
    swarm.Add("p1");
    swarm.Add("p2");
    v1::Plan plan = swarm.MakePlan({"p1", "p2"}, {"p1", "p2"});
    if (fault == 0) plan.mutable_shards(0)->set_chunks(plan.shards(0).chunks() - 1);
    if (fault == 1) plan.mutable_contributors(0)->set_weight_bits(absl::bit_cast<uint32_t>(-1.0f));
    if (fault == 2) plan.mutable_contributors(0)->set_peer("p2");
    if (fault == 3) plan.clear_contributors();
    if (fault == 4) plan.set_parameters(1);
    if (fault == 5) plan.mutable_shards(1)->set_chunks(0xffffffff);
    swarm.Give("p1", plan);
    swarm.world.RunFor(absl::Seconds(1));
    ASSERT_EQ(swarm.peer("p1").failed.size(), 1u) << fault;
    EXPECT_TRUE(absl::IsInvalidArgument(swarm.peer("p1").failed[0])) << fault;
  }
}

// Would break: a peer would send what it never encoded, or crash on a worker's infinite update.
TEST(Contribution, RefusesWhatIsNotFinite) {
  const ChunkGrid grid(10, 4);
  const Codec* codec = FindCodec("int8").value();
  std::vector<float> values(10, 1.0f);
  const Contribution good = EncodeContribution(grid, *codec, Rounding(), values).value();
  EXPECT_EQ(good.chunks.size(), 3u);
  for (uint32_t c = 0; c < grid.chunks(); ++c) {
    const Leaf leaf = LeafOf(good.leaves, c);
    EXPECT_EQ(leaf.digest, Sha256(good.chunks[c].span()));
    EXPECT_EQ(leaf.norms.squared_norm, good.norms[c].squared_norm);
    EXPECT_EQ(leaf.norms.squared_distance, 0);
  }
  EXPECT_EQ(good.leaves.size(), grid.chunks() * kLeafBytes);
  EXPECT_EQ(good.root, ContributionRoot(good.leaves));
  values[5] = std::numeric_limits<float>::infinity();
  const absl::Status status = EncodeContribution(grid, *codec, Rounding(), values).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_NE(status.message().find("chunk 1"), std::string::npos);
  EXPECT_TRUE(absl::IsInvalidArgument(
      EncodeContribution(grid, *codec, Rounding(), absl::MakeConstSpan(values).first(9)).status()));
}

// Would break: an update would be judged by other numbers than those of the bytes that were sent,
// and whoever checks them would call an honest contributor a liar.
TEST(Contribution, TellsTheNormsOfWhatItsChunksDecodeTo) {
  const ChunkGrid grid(9000, 4096);
  const Codec* codec = FindCodec("int8").value();
  const std::vector<float> values = BellValues(9000, 3);
  const Contribution made = EncodeContribution(grid, *codec, Rounding(), values).value();
  const Contribution mean =
      EncodeContribution(grid, *codec, Rounding(), BellValues(9000, 4)).value();
  const Centre centre = {codec, mean.chunks};
  const std::vector<ChunkNorms> norms = NormsFrom(centre, grid, *codec, made).value();
  ASSERT_EQ(made.norms.size(), 3u);
  ASSERT_EQ(norms.size(), 3u);
  double total = 0;
  for (uint32_t c = 0; c < 3; ++c) {
    std::vector<float> x(grid.Elements(c)), v(grid.Elements(c));
    ASSERT_TRUE(codec->Decode(made.chunks[c].span(), absl::MakeSpan(x)).ok());
    ASSERT_TRUE(codec->Decode(mean.chunks[c].span(), absl::MakeSpan(v)).ok());
    double norm = 0, distance = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      norm += double{x[i]} * double{x[i]};
      distance += (double{x[i]} - double{v[i]}) * (double{x[i]} - double{v[i]});
    }
    // Taken from codes, it lacks the rounding of each value to fp32.
    EXPECT_NEAR(made.norms[c].squared_norm, norm, 0x1p-23 * norm);
    EXPECT_EQ(made.norms[c].squared_norm, *codec->SquaredNorm(made.chunks[c].span(), x.size()));
    EXPECT_EQ(made.norms[c].squared_distance, 0);
    EXPECT_EQ(norms[c].squared_norm, made.norms[c].squared_norm);
    EXPECT_NEAR(norms[c].squared_distance, distance, 1e-9 * distance);
    total = total + made.norms[c].squared_norm;
  }
  EXPECT_EQ(WholeNorms(made.norms).squared_norm, total);
  // Before the first entry distances are from zero.
  const std::vector<ChunkNorms> first = NormsFrom(Centre(), grid, *codec, made).value();
  for (uint32_t c = 0; c < 3; ++c) {
    const double norm = first[c].squared_norm;
    EXPECT_NEAR(first[c].squared_distance, norm, 0x1p-23 * norm);
  }
}

}  // namespace
}  // namespace atolld
