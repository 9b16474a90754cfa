#include "membership/run/gradient_noise.h"

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/casts.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/membership/history/records_text.h"
#include "tests/unit/membership/run/simulated_peers.h"

namespace atolld {
namespace {

using testing::HasSubstr;

// Peers of 100 tokens a round, whose updates have the squared norm 4, and their mean 2.5.
SimulatedPeers Noisy(uint32_t peers, uint32_t quorum) {
  SimulatedPeers made(peers, quorum, 40);
  made.norms = {{"a", 2}, {"b", 2}, {"c", 2}};
  made.squared_means = {{"a", 2.5}, {"b", 2.5}, {"c", 2.5}};
  return made;
}

v1::NoiseStatus NoiseOf(const SimulatedPeers& peers) {
  return peers.run->Status(peers.now).noise();
}

// B_small = 100, B_big = 300.
constexpr double kNoise = (4 - 2.5) / (1.0 / 100 - 1.0 / 300);
constexpr double kSquaredGradient = (300 * 2.5 - 100 * 4) / 200.0;

// Broken: the operator would not be told, or another figure than the formula's.
TEST(GradientNoise, IsToldAfterARoundAndStandsInItsRecord) {
  SimulatedPeers peers = Noisy(3, 2);
  peers.Begin({"a", "b", "c"});
  EXPECT_EQ(NoiseOf(peers).tokens(), 0);
  EXPECT_THAT(NoiseOf(peers).unknown(), HasSubstr("no round of two whole updates"));
  peers.Commit({"a", "b", "c"});
  const v1::RoundRecord& record = peers.run->rounds().back();
  EXPECT_NEAR(record.gradient_noise(), kNoise, 1e-9);
  EXPECT_NEAR(record.squared_gradient(), kSquaredGradient, 1e-12);
  EXPECT_NEAR(record.noise_scale(), kNoise / kSquaredGradient, 1e-9);
  const v1::NoiseStatus noise = NoiseOf(peers);
  EXPECT_NEAR(noise.tokens(), kNoise / kSquaredGradient, 1e-9);
  EXPECT_EQ(noise.rounds(), 1u);
  EXPECT_EQ(noise.round_tokens(), 300u);
  EXPECT_EQ(noise.unknown(), "");
}

// Broken: a restarted coordinator would forget what ten rounds have shown.
TEST(GradientNoise, GoesOnFromTheStoredRounds) {
  SimulatedPeers peers = Noisy(3, 2);
  peers.Begin({"a", "b", "c"});
  peers.Commit({"a", "b", "c"});
  peers.squared_means = {{"a", 3}, {"b", 3}, {"c", 3}};
  peers.Commit({"a", "b", "c"});
  const v1::NoiseStatus before = NoiseOf(peers);
  peers.Restart();
  EXPECT_EQ(NoiseOf(peers).rounds(), 2u);
  EXPECT_EQ(NoiseOf(peers).tokens(), before.tokens());
  EXPECT_EQ(NoiseOf(peers).round_tokens(), 300u);
}

// Broken: one peer that lies about the mean would make the figure what it likes.
TEST(GradientNoise, TheMedianOfTheVotersCounts) {
  for (const double lie : {1e30, -1.0, std::numeric_limits<double>::quiet_NaN(), 1e-30}) {
    SimulatedPeers peers = Noisy(3, 3);
    peers.squared_means["a"] = lie;
    peers.Begin({"a", "b", "c"});
    peers.Commit({"a", "b", "c"});
    EXPECT_NEAR(NoiseOf(peers).tokens(), kNoise / kSquaredGradient, 1e-9) << lie;
  }
  // What no mean can have, or is not told, does not count at all.
  for (const double none : {0.0, -1.0, std::numeric_limits<double>::infinity()}) {
    SimulatedPeers peers = Noisy(3, 3);
    peers.squared_means["a"] = peers.squared_means["b"] = none;
    peers.Begin({"a", "b", "c"});
    peers.Commit({"a", "b", "c"});
    EXPECT_NEAR(NoiseOf(peers).tokens(), kNoise / kSquaredGradient, 1e-9) << none;
  }
}

// Broken: a single peer's round, or one of voters that do not tell, would be taken for an estimate.
TEST(GradientNoise, ARoundWithoutAnEstimateChangesNothing) {
  SimulatedPeers peers = Noisy(3, 1);
  peers.Begin({"a", "b", "c"});
  peers.Commit({"a", "b", "c"});
  const v1::NoiseStatus before = NoiseOf(peers);
  peers.squared_means.clear();
  peers.Commit({"a", "b", "c"});
  EXPECT_EQ(peers.run->rounds().back().gradient_noise(), 0);
  EXPECT_EQ(peers.run->rounds().back().noise_scale(), before.tokens()) << "still known";
  EXPECT_EQ(NoiseOf(peers).rounds(), 1u);

  SimulatedPeers one = Noisy(1, 1);
  one.Begin({"a"});
  one.Commit({"a"});
  ASSERT_EQ(one.run->version(), 1u);
  EXPECT_THAT(NoiseOf(one).unknown(), HasSubstr("two whole updates"));
}

v1::Plan PlanOf(size_t contributors) {
  v1::Plan plan;
  for (size_t i = 0; i < contributors; ++i) {
    v1::PlanMember* member = plan.add_contributors();
    member->set_weight_bits(absl::bit_cast<uint32_t>(100.0f));
    member->set_tokens(100);
    member->set_steps(5);
    member->set_squared_norm_bits(absl::bit_cast<uint64_t>(4.0));
  }
  return plan;
}

v1::Vote VoteOf(const std::vector<std::string>& shards) {
  v1::Vote vote;
  vote.set_payload_digest("p");
  vote.set_squared_mean_bits(absl::bit_cast<uint64_t>(2.5));
  std::vector<std::pair<std::string, std::vector<RunText>>> records;
  for (const std::string& bitmap : shards) records.push_back({"r", {{2, bitmap}}});
  *vote.mutable_records() = RecordsOf(records);
  return vote;
}

v1::RoundRecord Noted(const v1::Plan& plan, const v1::Vote& vote) {
  GradientNoise noise(v1::ExchangeSpec(), {});
  v1::RoundRecord record;
  noise.NoteCommit(plan, vote, {{"a", vote}}, &record);
  return record;
}

v1::RoundRecord Noted(const v1::Vote& vote) { return Noted(PlanOf(3), vote); }

// Broken: an update that was scaled down would count by a length that was never averaged.
TEST(GradientNoise, AnUpdateCountsAsItWasAveraged) {
  v1::Plan plan = PlanOf(3);
  v1::PlanMember* fast = plan.mutable_contributors(1);  // twice the steps, twice as long
  fast->set_steps(10);
  fast->set_squared_norm_bits(absl::bit_cast<uint64_t>(16.0));
  fast->set_scale_bits(absl::bit_cast<uint32_t>(0.5f));
  EXPECT_NEAR(Noted(plan, VoteOf({"\x07"})).gradient_noise(), kNoise, 1e-9);
  EXPECT_NEAR(Noted(plan, VoteOf({"\x07"})).squared_gradient(), kSquaredGradient, 1e-12);
}

// Broken: where some chunks lack an update, lengths of whole updates are held against a mean of
// others.
TEST(GradientNoise, AnUpdateThatIsAveragedInPartAllowsNoEstimate) {
  EXPECT_NEAR(Noted(VoteOf({"\x07", "\x07"})).gradient_noise(), kNoise, 1e-9);
  EXPECT_EQ(Noted(VoteOf({"\x07", "\x03"})).gradient_noise(), 0);
  v1::Vote exception = VoteOf({"\x07", "\x07"});
  *exception.mutable_records() =
      RecordsOf({{"r", {{2, "\x07"}}}, {"s", {{1, "\x07"}, {1, "\x05"}}}});
  EXPECT_EQ(Noted(exception).gradient_noise(), 0);
  // Who is in no chunk at all is no part of the round: two peers of 100 tokens are left.
  EXPECT_NEAR(Noted(VoteOf({"\x03", "\x03"})).gradient_noise(), 1.5 / (1.0 / 100 - 1.0 / 200),
              1e-9);
}

// Broken: a rule that makes no mean, or a codec that sends another vector, would give a figure that
// means nothing.
TEST(GradientNoise, WhatMeansNothingIsUnknown) {
  v1::ExchangeSpec krum;
  krum.set_codec("int8");
  krum.set_aggregation("krum");
  EXPECT_THAT(GradientNoise(krum, {}).Status().unknown(), HasSubstr("rule krum"));
  v1::ExchangeSpec mean = krum;
  mean.set_aggregation("mean");
  v1::ExchangeSpec topk = mean;
  topk.set_codec("topk");
  v1::ExchangeSpec upper = mean;
  upper.set_upper_codec("int2");
  EXPECT_THAT(GradientNoise(topk, {}).Status().unknown(), HasSubstr("codec topk"));
  v1::PrivacySpec privacy;
  privacy.set_clip_bits(0x3f800000);
  EXPECT_THAT(GradientNoise(v1::ExchangeSpec(), {}, privacy).Status().unknown(),
              HasSubstr("differential privacy"));
  EXPECT_THAT(GradientNoise(upper, {}).Status().unknown(), HasSubstr("codec int2"));
  const v1::Vote vote = VoteOf({"\x07"});
  for (const v1::ExchangeSpec& spec : {krum, topk, upper, mean}) {
    GradientNoise noise(spec, {});
    v1::RoundRecord record;
    noise.NoteCommit(PlanOf(3), vote, {{"a", vote}}, &record);
    const bool known = spec.SerializeAsString() == mean.SerializeAsString();
    EXPECT_EQ(record.gradient_noise() > 0, known) << spec.ShortDebugString();
    EXPECT_EQ(noise.Status().tokens() > 0, known) << spec.ShortDebugString();
  }
}

// Broken: negative estimates would be shown, or nothing would say why there is no figure.
TEST(GradientNoise, EstimatesThatAreNotPositiveAreExplained) {
  v1::RoundRecord record;
  record.set_squared_gradient(-1);
  record.set_gradient_noise(50);
  EXPECT_THAT(GradientNoise(v1::ExchangeSpec(), {record}).Status().unknown(),
              HasSubstr("too little in common"));
  record.set_squared_gradient(1);
  record.set_gradient_noise(-50);
  EXPECT_THAT(GradientNoise(v1::ExchangeSpec(), {record}).Status().unknown(),
              HasSubstr("differ too little"));
}

}  // namespace
}  // namespace atolld
