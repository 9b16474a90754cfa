// Would break: two machines cut the same data differently, or a draw has another distribution than
// its name says.
#include "daemon/experiment/partition/keyed_draws.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace atolld {
namespace {

constexpr int kManyDraws = 200000;

TEST(KeyedDrawsTest, PhiloxIsThePublishedOne) {
  // Broken: other machines' and other programs' Philox is not ours. The known answers of Random123.
  EXPECT_EQ(Philox({0, 0, 0, 0}, {0, 0}),
            (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(KeyedDrawsTest, LogAndExpAreThoseOfTheLibrary) {
  // Broken: Dirichlet's and log-normal's draws are of other distributions.
  for (double x = 1e-300; x < 1e300; x *= 1.37) {
    EXPECT_NEAR(PortableLog(x), std::log(x), 4e-16 * std::max(1.0, std::abs(std::log(x)))) << x;
  }
  for (double x = -700; x < 700; x += 0.731) {
    EXPECT_NEAR(PortableExp(x) / std::exp(x), 1, 1e-13) << x;
  }
  EXPECT_EQ(PortableLog(1), 0);
  EXPECT_EQ(PortableExp(0), 1);
  EXPECT_EQ(PortableExp(-1e6), 0);
}

TEST(KeyedDrawsTest, KeyDecidesTheStream) {
  // Broken: a seed does not repeat a partition, or two seeds give the same.
  const auto first = [](uint64_t seed, const char* purpose, uint64_t number) {
    return KeyedDraws(seed, purpose, number).Next();
  };
  EXPECT_EQ(first(1, "iid", 0), first(1, "iid", 0));
  EXPECT_NE(first(1, "iid", 0), first(2, "iid", 0));
  EXPECT_NE(first(1, "iid", 0), first(1, "shards", 0));
  EXPECT_NE(first(1, "iid", 0), first(1, "iid", 1));
}

TEST(KeyedDrawsTest, BelowIsUniform) {
  // Broken: some parties get more than their share of everything.
  KeyedDraws draws(1, "test");
  std::vector<int> counts(7);
  for (int i = 0; i < kManyDraws; ++i) ++counts[draws.Below(7)];
  double chi_square = 0;
  const double expected = kManyDraws / 7.0;
  for (const int count : counts) chi_square += (count - expected) * (count - expected) / expected;
  EXPECT_LT(chi_square, 22.5);  // 6 degrees of freedom: 0.1 % lie above
}

TEST(KeyedDrawsTest, NormalHasItsMoments) {
  // Broken: log-normal sizes and the continuous scheme's noise are of another spread.
  KeyedDraws draws(2, "test");
  double sum = 0, squares = 0, fourths = 0;
  for (int i = 0; i < kManyDraws; ++i) {
    const double x = draws.Normal();
    sum += x;
    squares += x * x;
    fourths += x * x * x * x;
  }
  EXPECT_NEAR(sum / kManyDraws, 0, 0.01);
  EXPECT_NEAR(squares / kManyDraws, 1, 0.015);
  EXPECT_NEAR(fourths / kManyDraws, 3, 0.12);
}

TEST(KeyedDrawsTest, GammaHasItsMoments) {
  // Broken: alpha is not Dirichlet's alpha. Mean and variance of Gamma(shape, 1) are the shape.
  for (const double shape : {0.1, 0.5, 1.0, 4.0}) {
    KeyedDraws draws(3, "test");
    double sum = 0, squares = 0;
    for (int i = 0; i < kManyDraws; ++i) {
      const double x = PortableExp(draws.LogGamma(shape));
      sum += x;
      squares += x * x;
    }
    const double mean = sum / kManyDraws;
    EXPECT_NEAR(mean, shape, 5 * std::sqrt(shape / kManyDraws)) << shape;
    EXPECT_NEAR(squares / kManyDraws - mean * mean, shape, 0.06 * shape + 0.003) << shape;
  }
}

TEST(KeyedDrawsTest, DirichletHasItsMoments) {
  // Broken: parties are more, or less, alike than alpha says. Each of k parts has the mean 1/k and
  // the variance (1/k)(1 - 1/k) / (k alpha + 1).
  const size_t k = 5;
  const int many = 20000;
  for (const double alpha : {0.01, 0.3, 10.0}) {
    KeyedDraws draws(4, "test");
    double first = 0, squares = 0;
    for (int i = 0; i < many; ++i) {
      const std::vector<double> parts = draws.Dirichlet(alpha, k);
      ASSERT_NEAR(std::accumulate(parts.begin(), parts.end(), 0.0), 1, 1e-12);
      first += parts[0];
      squares += parts[0] * parts[0];
    }
    const double mean = first / many;
    const double variance = 0.2 * 0.8 / (k * alpha + 1);
    EXPECT_NEAR(mean, 0.2, 5 * std::sqrt(variance / many)) << alpha;
    EXPECT_NEAR((squares / many - mean * mean) / variance, 1, 0.05) << alpha;
  }
}

TEST(KeyedDrawsTest, ShuffleLosesNothing) {
  // Broken: a sample goes to two parties, or to none.
  std::vector<int> items(1000);
  std::iota(items.begin(), items.end(), 0);
  const std::vector<int> before = items;
  KeyedDraws(5, "test").Shuffle(&items);
  EXPECT_NE(items, before);
  std::sort(items.begin(), items.end());
  EXPECT_EQ(items, before);
}

}  // namespace
}  // namespace atolld
