// A contributor that sends more than its update: the same again and again, or what unpacks to far
// more than it is.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "compression/zstd_frame.h"
#include "daemon/exchange/chunk_work.h"
#include "gtest/gtest.h"
#include "tests/unit/daemon/exchange/liar.h"
#include "tests/unit/daemon/exchange/swarm.h"

namespace atolld {
namespace {

// p1 reduces for itself, p2 and p3, in whose place the liar speaks.
struct FloodScene {
  explicit FloodScene(const SwarmSettings& settings) : swarm(settings), liar(swarm) {
    for (const char* name : {"p1", "p2", "p3"}) swarm.Add(name);
    swarm.world.AddProcess("liar");
  }
  void Begin() {
    plan = swarm.MakePlan({"p1", "p2", "p3"}, {"p1"});
    swarm.Give("p1", plan);
    liar.Open(plan);
  }
  void Complete(const std::vector<std::string>& whole) {
    swarm.Give("p2", plan);
    ASSERT_TRUE(swarm.world.RunUntil(
        [&] {
          return swarm.Complete({"p1", "p2"}, 1);
        },
        absl::Seconds(5)))
        << swarm.world.LogText();
    swarm.CheckOutcomes({"p1", "p2"}, plan, whole);
  }

  Swarm swarm;
  Liar liar;
  v1::Plan plan;
};

// Would break: one contributor could take its reducer's memory with chunks that it has sent before.
TEST(ExchangeFlood, DuplicatesAreNotHeld) {
  FloodScene scene((SwarmSettings()));
  scene.Begin();
  const auto held = [&] { return scene.swarm.peer("p1").node->exchange->figures().held_bytes; };
  const uint64_t own = held();
  const std::vector<SharedBytes>& chunks = scene.swarm.peer("p3").contribution->chunks;
  // p2's are not there yet, so nothing can be averaged.
  for (int i = 0; i <= 20000; ++i) scene.liar.Send(0, 1, chunks[0]);
  uint64_t payload = chunks[0].size();
  for (uint32_t c = 1; c < chunks.size(); ++c) {
    scene.liar.Send(c, 1, chunks[c]);
    payload += chunks[c].size();
  }
  uint64_t most = 0;
  ASSERT_TRUE(scene.swarm.world.RunUntil(
      [&] {
        most = std::max(most, held() - own);
        return most >= payload;
      },
      absl::Minutes(5)));
  scene.swarm.world.RunFor(absl::Seconds(1));
  EXPECT_EQ(std::max(most, held() - own), payload);
  ASSERT_NO_FATAL_FAILURE(scene.Complete({"p1", "p2", "p3"}));
  EXPECT_TRUE(scene.liar.closed.empty());
  EXPECT_TRUE(scene.swarm.peer("p1").refused.empty());
}

// A frame of few bytes that declares, and holds, a mebibyte.
std::string Bomb() {
  const std::vector<uint8_t> zeros(size_t{1} << 20);
  return ZstdCompress(zeros).value();
}

// Would break: what a chunk may unpack to would be its sender's to say.
TEST(ExchangeFlood, AFrameIsHeldToTheChunksShape) {
  for (const char* name : {"int8", "fp32"}) {
    const ChunkForm form = {FindCodec(name).value(), true};
    const SharedBytes bomb(Bomb());
    ASSERT_LE(bomb.size(), form.MaxWireBytes(256));
    EXPECT_TRUE(absl::IsInvalidArgument(form.FromWire(bomb, 256).status())) << name;
    EXPECT_TRUE(form.FromWire(bomb, size_t{1} << 20).ok()) << "nothing else is wrong with it";
  }
}

// Would break: a bomb would take the memory of its reducer, or hold up the chunks of all others.
TEST(ExchangeFlood, ABombIsRefusedAndTheOthersComplete) {
  SwarmSettings settings;
  settings.zstd = true;
  FloodScene scene(settings);
  // It has signed for what the bomb unpacks to: the leaves say nothing against it.
  Contribution spoiled = *scene.swarm.peer("p3").contribution;
  spoiled.digests[1] = Sha256(std::vector<uint8_t>(size_t{1} << 20));
  SetNorms(std::vector<ChunkNorms>(spoiled.norms), &spoiled);
  scene.swarm.peer("p3").contribution = std::make_shared<const Contribution>(std::move(spoiled));
  scene.Begin();
  const ChunkForm form = {scene.swarm.codec, true};
  scene.liar.Send(0, 1, form.ToWire(scene.swarm.peer("p3").contribution->chunks[0]));
  scene.liar.Send(1, 1, SharedBytes(Bomb()));
  ASSERT_NO_FATAL_FAILURE(scene.Complete({"p1", "p2"}));
  ASSERT_EQ(scene.swarm.peer("p1").refused.size(), 1u);
  const v1::UpdateRefused& refused = scene.swarm.peer("p1").refused[0];
  EXPECT_EQ(refused.contributor(), "p3");
  EXPECT_EQ(refused.chunk(), 1u);
  EXPECT_NE(refused.reason().find("zstd"), std::string::npos) << refused.reason();
  ASSERT_EQ(scene.liar.closed.size(), 1u);
  EXPECT_TRUE(absl::IsInvalidArgument(scene.liar.closed[0])) << scene.liar.closed[0];
}

}  // namespace
}  // namespace atolld
