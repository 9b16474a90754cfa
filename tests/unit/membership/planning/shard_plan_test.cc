#include "membership/planning/shard_plan.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "gtest/gtest.h"

namespace atolld {
namespace {

// The time of the slowest reachable contributor.
double Time(const std::vector<double>& bandwidths, const std::vector<double>& weights) {
  double most = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (bandwidths[i] <= 0) continue;
    const double n = static_cast<double>(weights.size());
    most = std::max(most, (1 + (n - 2) * weights[i]) / bandwidths[i]);
  }
  return most;
}

// The least time over all divisions into `steps` parts.
double BruteForce(const std::vector<double>& bandwidths, std::vector<double> weights, size_t i,
                  int left, int steps) {
  if (i + 1 == bandwidths.size()) {
    if (left > 0 && bandwidths[i] <= 0) return 1e300;
    weights.push_back(static_cast<double>(left) / steps);
    return Time(bandwidths, weights);
  }
  double best = 1e300;
  for (int part = 0; part <= (bandwidths[i] > 0 ? left : 0); ++part) {
    std::vector<double> next = weights;
    next.push_back(static_cast<double>(part) / steps);
    best = std::min(best, BruteForce(bandwidths, next, i + 1, left - part, steps));
  }
  return best;
}

// Would break: exchanges slower than they need be when links differ.
TEST(ShardWeights, ReachTheOptimumThatBruteForceFinds) {
  const std::vector<std::vector<double>> cases = {
      {1, 1, 1},    {1, 2, 3},      {1, 10, 10}, {0, 1, 1},    {0, 1, 4, 2},
      {5, 1, 1, 1}, {1, 1, 1, 100}, {0, 0, 3},   {2, 0, 2, 0},
  };
  for (const auto& bandwidths : cases) {
    const std::vector<double> weights = ShardWeights(bandwidths);
    EXPECT_NEAR(std::accumulate(weights.begin(), weights.end(), 0.0), 1, 1e-12);
    const int steps = bandwidths.size() == 3 ? 400 : 60;
    const double brute = BruteForce(bandwidths, {}, 0, steps, steps);
    EXPECT_LE(Time(bandwidths, weights), brute * (1 + 1e-9));
    EXPECT_GE(Time(bandwidths, weights), brute * 0.93);  // the grid of the brute force is coarse
  }
}

// Would break: small runs, where the closed form does not hold.
TEST(ShardWeights, OneAndTwoContributorsShareEqually) {
  EXPECT_EQ(ShardWeights({3.0}), (std::vector<double>{1}));
  EXPECT_EQ(ShardWeights({1.0, 9.0}), (std::vector<double>{0.5, 0.5}));
  EXPECT_EQ(ShardWeights({0.0, 9.0}), (std::vector<double>{0, 1}));
}

// Would break: a plan whose shards do not tile the grid, which every replica refuses.
TEST(SplitChunks, GivesWholeChunksThatSum) {
  EXPECT_EQ(SplitChunks(10, {1, 1, 1}), (std::vector<uint32_t>{4, 3, 3}));
  EXPECT_EQ(SplitChunks(2, {1, 1, 1}), (std::vector<uint32_t>{1, 1, 0}));
  EXPECT_EQ(SplitChunks(7, {0, 0.5, 0.5}), (std::vector<uint32_t>{0, 4, 3}));
  EXPECT_EQ(SplitChunks(1, {0.2, 0.8}), (std::vector<uint32_t>{0, 1}));
  for (uint32_t chunks = 0; chunks < 200; ++chunks) {
    const std::vector<double> weights = {0.1, 0, 0.3, 1.0 / 3, 0.26666666666666666};
    const std::vector<uint32_t> counts = SplitChunks(chunks, weights);
    EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), 0u), chunks);
    EXPECT_EQ(counts[1], 0u);
    for (size_t i = 0; i < counts.size(); ++i)
      EXPECT_LE(std::abs(counts[i] - chunks * weights[i]), 1.0 + 1e-9);
  }
}

}  // namespace
}  // namespace atolld
