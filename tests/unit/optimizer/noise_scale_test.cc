#include "optimizer/noise_scale.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace atolld {
namespace {

constexpr size_t kNoiseElements = 500;

struct Peer {
  double tokens;
  double length;
  double weight;
};

// Rounds of the model itself: updates h_i (G + n_i) with |G|^2 = 1 and E |n_i|^2 = S / B_i, their
// lengths and that of their mean measured as peers measure them.
class Rounds {
 public:
  Rounds(std::vector<Peer> peers, double noise, uint64_t seed)
      : peers_(std::move(peers)), noise_(noise), random_(seed) {
    for (const Peer& peer : peers_) weights_ += peer.weight;
    for (const Peer& peer : peers_) mean_length_ += peer.weight / weights_ * peer.length;
  }

  std::optional<NoiseEstimate> Next() {
    std::normal_distribution<double> normal;
    std::vector<double> mean(kNoiseElements, 0);
    std::vector<NoiseSample> samples;
    for (const Peer& peer : peers_) {
      const double deviation = std::sqrt(noise_ / peer.tokens / kNoiseElements);
      double squares = 0;
      for (double& value : mean) {
        const double update = peer.length / mean_length_ *
                              (1 / std::sqrt(double{kNoiseElements}) + deviation * normal(random_));
        squares += update * update;
        value += peer.weight / weights_ * update;
      }
      samples.push_back({peer.weight, squares, peer.tokens, peer.length});
    }
    double squared_mean = 0;
    for (const double value : mean) squared_mean += value * value;
    return EstimateNoise(samples, squared_mean);
  }

 private:
  const std::vector<Peer> peers_;
  const double noise_;
  std::mt19937_64 random_;
  double weights_ = 0;
  double mean_length_ = 0;
};

// The mean estimates of many rounds, over what they are of.
void ExpectUnbiased(const std::vector<Peer>& peers, double noise) {
  Rounds rounds(peers, noise, 7);
  constexpr int kRounds = 400;
  NoiseEstimate sum;
  for (int i = 0; i < kRounds; ++i) {
    const std::optional<NoiseEstimate> one = rounds.Next();
    ASSERT_TRUE(one.has_value());
    sum.noise += one->noise / kRounds;
    sum.squared_gradient += one->squared_gradient / kRounds;
  }
  EXPECT_NEAR(sum.noise / noise, 1, 0.03);
  EXPECT_NEAR(sum.squared_gradient, 1, 0.05);
}

TEST(NoiseScale, EqualPeersGiveThePapersFormula) {
  // Broken: a factor of M or of M - 1 would be lost, and the advice with it.
  // B_small = 10, B_big = 40, |g_small|^2 = 5, |g_big|^2 = 2.
  const NoiseSample sample{3, 5, 10, 4};
  const std::optional<NoiseEstimate> estimate = EstimateNoise({sample, sample, sample, sample}, 2);
  ASSERT_TRUE(estimate.has_value());
  EXPECT_NEAR(estimate->noise, (5.0 - 2.0) / (1.0 / 10 - 1.0 / 40), 1e-9);
  EXPECT_NEAR(estimate->squared_gradient, (40.0 * 2 - 10.0 * 5) / (40 - 10), 1e-12);
}

TEST(NoiseScale, EstimatesAreUnbiasedWhoeverTakesPart) {
  // Broken: peers of unequal speed, age or weight would bend the figure.
  ExpectUnbiased({{100, 5, 100}, {100, 5, 100}, {100, 5, 100}, {100, 5, 100}}, 200);
  ExpectUnbiased({{100, 5, 100}, {400, 5, 400}, {200, 5, 200}}, 200);    // batches differ
  ExpectUnbiased({{100, 5, 50}, {100, 5, 100}, {300, 5, 100}}, 200);     // weights bound otherwise
  ExpectUnbiased({{100, 5, 100}, {200, 10, 200}, {300, 15, 250}}, 200);  // lengths differ
}

TEST(NoiseScale, RunningMeansRecoverAKnownScale) {
  // Broken: the operator would be told to add peers when they no more help, or the reverse.
  for (const double noise : {20.0, 200.0, 1000.0}) {
    Rounds rounds({{100, 5, 100}, {100, 5, 100}, {150, 5, 150}, {100, 5, 100}}, noise, 11);
    NoiseScale scale;
    for (int i = 0; i < 60; ++i) scale.Note(*rounds.Next());
    ASSERT_TRUE(scale.tokens().has_value());
    EXPECT_NEAR(*scale.tokens() / noise, 1, 0.15) << noise;
    EXPECT_EQ(scale.rounds(), 60u);
  }
}

TEST(NoiseScale, IsTheRatioOfMeansAndFollowsTheRun) {
  // Broken: a mean of ratios is carried away by one small denominator; an old estimate would stand
  // for ever.
  NoiseScale scale;
  scale.Note({1.0, 10});
  EXPECT_NEAR(*scale.tokens(), 10, 1e-12);
  scale.Note({0.001, 10});
  EXPECT_NEAR(*scale.tokens(), 10 * 1.9 / (0.9 + 0.001), 1e-9);
  for (int i = 0; i < 60; ++i) scale.Note({1.0, 50});
  EXPECT_NEAR(*scale.tokens(), 50, 0.5);
}

TEST(NoiseScale, IsUnknownUntilBothMeansArePositive) {
  // Broken: a negative noise scale, or an endless one, would be shown as a figure.
  NoiseScale scale;
  EXPECT_FALSE(scale.tokens().has_value());
  scale.Note({-0.5, 10});
  EXPECT_FALSE(scale.tokens().has_value());
  EXPECT_FALSE(scale.gradient_seen());
  EXPECT_TRUE(scale.noise_seen());
  scale.Note({1.0, 10});
  EXPECT_NEAR(*scale.tokens(), 19 / 0.55, 1e-9) << "the negative estimate counts too";
  NoiseScale still;
  still.Note({1.0, -3});
  EXPECT_FALSE(still.tokens().has_value());
  EXPECT_FALSE(still.noise_seen());
}

TEST(NoiseScale, WhatCannotBeEstimatedIsNotGuessed) {
  // Broken: a round of one peer, or of as good as one, would give a figure made of rounding.
  const NoiseSample good{1, 5, 10, 4};
  EXPECT_TRUE(EstimateNoise({good, good}, 4).has_value());
  EXPECT_FALSE(EstimateNoise({good}, 5).has_value());
  EXPECT_FALSE(EstimateNoise({}, 0).has_value());
  EXPECT_FALSE(EstimateNoise({good, {1, 5, 0, 4}}, 4).has_value());
  EXPECT_FALSE(EstimateNoise({good, {1, 5, 10, 0}}, 4).has_value());
  EXPECT_FALSE(EstimateNoise({good, {0, 5, 10, 4}}, 4).has_value());
  EXPECT_FALSE(EstimateNoise({good, {1000, 5, 10, 4}}, 4).has_value());
  EXPECT_FALSE(EstimateNoise({good, good}, std::numeric_limits<double>::infinity()).has_value());
  EXPECT_FALSE(EstimateNoise({good, {1, std::nan(""), 10, 4}}, 4).has_value());
}

}  // namespace
}  // namespace atolld
