#include "daemon/exchange/outcome.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/sim/sim_world.h"

namespace atolld {
namespace {

class PayloadBuildTest : public ::testing::Test {
 protected:
  PayloadBuildTest() { world_.AddProcess("p"); }

  std::unique_ptr<PayloadBuild> Make(const ChunkGrid& grid, const Codec& codec) {
    placed_.assign(grid.chunks(), SharedBytes());
    return std::make_unique<PayloadBuild>(world_.process("p").env().executor, grid, codec);
  }
  std::unique_ptr<PayloadBuild> Make(const ChunkGrid& grid) { return Make(grid, codec_); }

  // As whoever makes or receives a mean.
  void Place(PayloadBuild* build, uint32_t chunk, const SharedBytes& encoded) {
    std::optional<FreshBytes> place = build->Claim(chunk);
    ASSERT_TRUE(place.has_value());
    ASSERT_EQ(place->span().size(), encoded.size());
    std::copy(encoded.span().begin(), encoded.span().end(), place->span().begin());
    placed_[chunk] = std::move(*place).Share(encoded.size());
    build->Take(chunk, placed_[chunk]);
  }

  // One mean a chunk.
  std::vector<ChunkMean> Means(const ChunkGrid& grid) {
    std::vector<ChunkMean> means(grid.chunks());
    for (uint32_t c = 0; c < grid.chunks(); ++c) {
      std::vector<float> values(grid.Elements(c));
      for (float& value : values) value = std::normal_distribution<float>()(random_);
      std::vector<uint8_t> bytes(codec_.MaxEncodedBytes(values.size()));
      EXPECT_TRUE(codec_.Encode(values, absl::MakeSpan(bytes)).ok());
      means[c].encoded = SharedBytes(std::move(bytes));
    }
    return means;
  }

  void ExpectAsAssembled(const std::vector<ChunkMean>& means) {
    std::vector<SharedBytes> chunks;
    for (const ChunkMean& mean : means) chunks.push_back(mean.encoded);
    const SharedBytes joined = JoinPayload(chunks);
    ASSERT_TRUE(told_.has_value());
    EXPECT_TRUE(told_->payload.span() == joined.span());
    EXPECT_EQ(told_->payload_digest, TreeDigest(joined.span()));
    for (uint32_t c = 0; c < means.size(); ++c) {
      EXPECT_EQ(placed_[c].str(), means[c].encoded.str()) << c;
      const bool inside = placed_[c].data() >= told_->payload.data() &&
                          placed_[c].data() < told_->payload.data() + told_->payload.size();
      EXPECT_TRUE(inside) << "chunk " << c << " lies in memory twice";
    }
  }

  void Finish(PayloadBuild* build) {
    build->Finish([this](ExchangeOutcome outcome) { told_ = std::move(outcome); });
    EXPECT_FALSE(told_.has_value()) << "told from inside";
    EXPECT_TRUE(world_.RunUntil([this] { return told_.has_value(); }, absl::Minutes(1)));
  }

  SimWorld world_{3};
  std::mt19937 random_{5};
  const Codec& codec_ = **FindCodec("int8");
  std::vector<SharedBytes> placed_;  // by chunk
  std::optional<ExchangeOutcome> told_;
};

TEST_F(PayloadBuildTest, MakesInAnyOrderWhatIsAssembledAtTheEnd) {
  // Broken: peers whose means came in another order would vote for another payload, or peers that
  // had to begin anew for another than the rest.
  const ChunkGrid grids[] = {
      ChunkGrid(1, 256),           // one short chunk
      ChunkGrid(5000, 256),        // within one block, the last chunk short
      ChunkGrid(3500000, 4096),    // several blocks, their ends inside chunks
      ChunkGrid(6000000, 2 << 20)  // chunks of more than a block
  };
  for (const ChunkGrid& grid : grids) {
    const std::vector<ChunkMean> means = Means(grid);
    for (int order = 0; order < 3; ++order) {
      const auto build = Make(grid);
      std::vector<uint32_t> chunks(grid.chunks());
      std::iota(chunks.begin(), chunks.end(), 0);
      if (order == 1) std::reverse(chunks.begin(), chunks.end());
      if (order == 2) std::shuffle(chunks.begin(), chunks.end(), random_);
      for (const uint32_t chunk : chunks) {
        Place(build.get(), chunk, means[chunk].encoded);
        if (random_() % 8 == 0) world_.RunFor(absl::Milliseconds(1));
      }
      ASSERT_FALSE(build->given_up());
      told_.reset();
      Finish(build.get());
      ExpectAsAssembled(means);
    }
  }
}

TEST_F(PayloadBuildTest, AMeanThatLiesElsewhereOrIsMadeTwiceOrTakenBackEndsIt) {
  // Broken: later chunks would lie in the wrong place, a mean of an older attempt beside those of a
  // newer one, or two would be written over each other.
  const ChunkGrid grid(5000, 256);
  const std::vector<ChunkMean> means = Means(grid);
  const std::function<void(PayloadBuild*)> ends[] = {
      [](PayloadBuild* build) { build->GiveUp(); },
      [](PayloadBuild* build) { EXPECT_FALSE(build->Claim(0).has_value()) << "taken"; },
      [&](PayloadBuild* build) {
        EXPECT_TRUE(build->Claim(1).has_value());
        EXPECT_FALSE(build->Claim(1).has_value()) << "being written";
      },
      [&](PayloadBuild* build) { build->Take(1, means[1].encoded); },
      [&](PayloadBuild* build) {
        FreshBytes place = *build->Claim(1);
        build->Take(1, std::move(place).Share(means[1].encoded.size() - 1));
      }};
  for (const auto& end : ends) {
    const auto build = Make(grid);
    Place(build.get(), 0, means[0].encoded);
    EXPECT_FALSE(build->given_up());
    end(build.get());
    EXPECT_TRUE(build->given_up());
    EXPECT_FALSE(build->Claim(2).has_value());
    build->Take(2, means[2].encoded);
    world_.RunFor(absl::Seconds(1));
    EXPECT_EQ(placed_[0].str(), means[0].encoded.str()) << "it is sent to others yet";
  }
  EXPECT_TRUE(Make(ChunkGrid(0, 256))->given_up()) << "there is nothing to place";
  EXPECT_TRUE(Make(grid, **FindCodec("topk"))->given_up()) << "nobody knows where a chunk ends";
}

TEST_F(PayloadBuildTest, WhoeverWaitsHearsOfItsEnd) {
  // Broken: an exchange whose plan changes while its last blocks are hashed would wait for ever.
  const ChunkGrid grid(5000, 256);
  const std::vector<ChunkMean> means = Means(grid);
  for (const bool hashed : {false, true}) {
    const auto build = Make(grid);
    for (uint32_t c = 0; c < grid.chunks(); ++c) Place(build.get(), c, means[c].encoded);
    if (hashed) world_.RunFor(absl::Seconds(1));
    told_.reset();
    build->Finish([this](ExchangeOutcome outcome) { told_ = std::move(outcome); });
    build->GiveUp();
    EXPECT_FALSE(told_.has_value()) << "told from inside";
    ASSERT_TRUE(world_.RunUntil([this] { return told_.has_value(); }, absl::Minutes(1)));
    EXPECT_TRUE(told_->payload.empty());
  }
}

TEST_F(PayloadBuildTest, WhoeverIsGoneIsToldNothing) {
  // Broken: an exchange that ends while its last blocks are hashed would be called after its end.
  const ChunkGrid grid(3500000, 4096);
  const std::vector<ChunkMean> means = Means(grid);
  auto build = Make(grid);
  for (uint32_t c = 0; c < grid.chunks(); ++c) Place(build.get(), c, means[c].encoded);
  build->Finish([this](ExchangeOutcome outcome) { told_ = std::move(outcome); });
  build.reset();
  world_.RunFor(absl::Seconds(1));
  EXPECT_FALSE(told_.has_value());
}

v1::Plan OneReducer(uint32_t revision, uint32_t second_attempt) {
  v1::Plan plan;
  plan.set_version(1);
  plan.set_epoch(1);
  plan.set_revision(revision);
  plan.set_parameters(256);
  v1::PlanMember* const member = plan.add_contributors();
  member->set_peer("a");
  member->set_weight_bits(0x3f800000);
  for (uint32_t i = 0; i < 2; ++i) {
    v1::Shard* const shard = plan.add_shards();
    shard->set_first_chunk(i);
    shard->set_chunks(1);
    shard->set_reducer("a");
    shard->set_attempt(i == 0 ? 1 : second_attempt);
  }
  return plan;
}

class OutcomeBuildTest : public PayloadBuildTest {
 protected:
  void Adopt(uint32_t revision, uint32_t second_attempt) {
    const v1::Plan plan = OneReducer(revision, second_attempt);
    dropped_ = build_.Adopt(ExchangePlan::Make(plan, grid_).value());
    build_.TellNews();
  }

  void Store(uint32_t chunk, uint32_t attempt) {
    ChunkMean mean = means_[chunk];
    mean.attempt = attempt;
    mean.contributors = std::string(1, '\1');
    build_.Store(chunk, std::move(mean));
    build_.TellNews();
  }

  void Settle() { world_.RunFor(absl::Seconds(1)); }

  const ChunkGrid grid_{256, 128};
  const std::vector<ChunkMean> means_ = Means(grid_);
  std::vector<uint32_t> dropped_;
  std::vector<MeanTable::ShardAttempt> held_;
  std::vector<ExchangeOutcome> outcomes_;
  OutcomeBuild build_{world_.process("p").env().executor,
                      grid_,
                      codec_,
                      {[this](ExchangeOutcome outcome) { outcomes_.push_back(std::move(outcome)); },
                       [this](const std::vector<MeanTable::ShardAttempt>& shards) {
                         held_.insert(held_.end(), shards.begin(), shards.end());
                       }}};
};

// Would break: a peer would vote twice for one plan, for means of an attempt that is over, or not
// at all for a plan under which no mean has changed.
TEST_F(OutcomeBuildTest, TellsOnceARevisionWhatIsWhole) {
  Adopt(1, 1);
  Store(0, 1);
  Store(1, 1);
  EXPECT_TRUE(outcomes_.empty()) << "told from inside";
  Settle();
  using Held = std::vector<MeanTable::ShardAttempt>;
  EXPECT_EQ(held_, (Held{{0, 1}, {1, 1}}));
  ASSERT_EQ(outcomes_.size(), 1u);
  EXPECT_EQ(outcomes_[0].revision, 1u);
  EXPECT_EQ(outcomes_[0].payload_digest, TreeDigest(outcomes_[0].payload.span()));

  Adopt(2, 1);  // nothing has changed
  EXPECT_TRUE(dropped_.empty());
  Settle();
  ASSERT_EQ(outcomes_.size(), 2u);
  EXPECT_EQ(outcomes_[1].revision, 2u);
  EXPECT_EQ(outcomes_[1].payload.data(), outcomes_[0].payload.data());

  Adopt(3, 2);
  EXPECT_EQ(dropped_, std::vector<uint32_t>{1});
  Settle();
  EXPECT_EQ(outcomes_.size(), 2u) << "a mean is missing";
  Store(1, 2);
  Settle();
  EXPECT_EQ(held_, (Held{{0, 1}, {1, 1}, {1, 2}}));
  ASSERT_EQ(outcomes_.size(), 3u);
  EXPECT_EQ(outcomes_[2].payload_digest, outcomes_[0].payload_digest);
}

// Would break: an exchange that has failed would still vote.
TEST_F(OutcomeBuildTest, TellsNothingOnceItIsStopped) {
  Adopt(1, 1);
  Store(0, 1);
  Store(1, 1);
  build_.Stop();
  Settle();
  EXPECT_TRUE(outcomes_.empty());
  EXPECT_TRUE(held_.empty());
}

}  // namespace
}  // namespace atolld
