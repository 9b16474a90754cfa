#include "optimizer/robust_shares.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "tests/unit/optimizer/aggregation_oracle.h"

namespace atolld {
namespace {

using testing::ElementsAre;

UpdateProducts ProductsOf(const Vectors& vectors) {
  UpdateProducts products(UpdateProducts::Kind::kProducts, vectors.size());
  EXPECT_TRUE(products.AddChunk(SpansOf(vectors)).ok());
  return products;
}

std::vector<double> EqualShares(size_t n) {
  return std::vector<double>(n, 1.0 / static_cast<double>(n));
}

TEST(LowerMedian, IsTheSmallerOfTwoMiddleValues) {
  // Broken: of two updates the longer would set the measure for both.
  EXPECT_EQ(LowerMedian({}), 0);
  EXPECT_EQ(LowerMedian({7}), 7);
  EXPECT_EQ(LowerMedian({9, 2}), 2);
  EXPECT_EQ(LowerMedian({3, 1, 2}), 2);
  EXPECT_EQ(LowerMedian({4, 1, 3, 2}), 2);
}

TEST(ClipScales, ScaleDownWhatIsLongerAndNothingElse) {
  // Broken: one update of norm 1e30 would carry the mean away.
  EXPECT_THAT(ClipScales({0.0, 1.0, 2.0, 4.0, 1e30, 1e40}, 2.0),
              ElementsAre(1.0f, 1.0f, 1.0f, 0.5f, 2e-30f, 0.0f));
  EXPECT_THAT(ClipScales({0.0, 1.0}, 0.0), ElementsAre(1.0f, 0.0f));
}

TEST(KrumScores, OrderAsDirectDistancesDo) {
  // Broken: Krum would choose a liar.
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    for (const size_t faulty : {1, 2, 3}) {
      const size_t n = 2 * faulty + 3 + seed % 3;
      Vectors updates = HonestUpdates(n, 257, 0.5f, seed);
      for (size_t i = 0; i < faulty; ++i) updates[(seed + 2 * i) % n] = BellValues(257, 77 + i);
      const std::vector<double> scores = KrumScores(ProductsOf(updates), faulty);
      std::vector<size_t> order(n);
      std::iota(order.begin(), order.end(), size_t{0});
      std::stable_sort(order.begin(), order.end(),
                       [&](size_t a, size_t b) { return scores[a] < scores[b]; });
      EXPECT_EQ(order, OracleKrumOrder(updates, faulty)) << seed << " " << faulty;
    }
  }
}

TEST(GeometricMedianShares, MakeTheLeastSumOfDistances) {
  // Broken: it would be some other mean, without the geometric median's breakdown point.
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    const size_t n = 3 + seed % 6;
    Vectors updates = HonestUpdates(n, 131, 0.7f, seed);
    for (float& value : updates[seed % n]) value *= -8;
    Vector weights(n, 1.0f);
    weights[0] = 1.5f;
    const double total = static_cast<double>(n) + 0.5;
    std::vector<double> shares(n, 1 / total);
    shares[0] = 1.5 / total;
    const std::vector<double> result = GeometricMedianShares(ProductsOf(updates), shares);
    EXPECT_NEAR(std::accumulate(result.begin(), result.end(), 0.0), 1, 1e-12);
    const Reals point = Combined(updates, Reals(result.begin(), result.end()));
    const Reals best = OracleGeometricMedian(updates, weights);
    const long double least = DistanceSum(updates, weights, best);
    EXPECT_LE(DistanceSum(updates, weights, point), least * 1.0001L) << seed;
    const Reals mean = Combined(updates, Reals(shares.begin(), shares.end()));
    EXPECT_GT(DistanceSum(updates, weights, mean), least * 1.01L) << seed;
  }
}

TEST(GeometricMedianShares, LeaveNothingToAHugeUpdate) {
  // Broken: iterations that begin at the mean would have to walk back from 1e30, and would not
  // arrive.
  Vectors updates = HonestUpdates(7, 100, 0.3f, 1);
  updates[2] = Vector(100, 1e30f);
  updates[5] = Vector(100, 1e30f);
  const std::vector<double> shares = GeometricMedianShares(ProductsOf(updates), EqualShares(7));
  EXPECT_LT(shares[2] * 1e31, 10 * static_cast<double>(NormOf(updates[0])));
  for (const size_t honest : {0, 1, 3, 4, 6}) EXPECT_GT(shares[honest], 0.1);
}

TEST(GeometricMedianShares, OfEqualUpdatesAreTheWeights) {
  // Broken: a division by no distance.
  const Vectors same(4, BellValues(64, 1));
  EXPECT_THAT(GeometricMedianShares(ProductsOf(same), EqualShares(4)),
              ElementsAre(0.25, 0.25, 0.25, 0.25));
  const Vectors zeros(3, Vector(64, 0.0f));
  for (const double share : GeometricMedianShares(ProductsOf(zeros), EqualShares(3))) {
    EXPECT_DOUBLE_EQ(share, 1.0 / 3);
  }
  EXPECT_THAT(GeometricMedianShares(ProductsOf({BellValues(9, 1)}), {1.0}), ElementsAre(1.0));
}

TEST(CentredClippingShares, AreTheStepsOnWholeVectors) {
  // Broken: what is computed from products alone would not be centred clipping.
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    for (const size_t n : {1, 2, 3, 4, 5, 6, 7}) {
      Vectors vectors = HonestUpdates(n + 1, 100, 0.7f, seed);
      for (float& value : vectors[seed % n]) value *= -20;
      const Vector centre = vectors.back();
      std::vector<double> shares(n, 1.0 / static_cast<double>(n));
      const std::vector<double> result = CentredClippingShares(ProductsOf(vectors), shares);
      ASSERT_EQ(result.size(), n + 1);
      EXPECT_NEAR(std::accumulate(result.begin(), result.end(), 0.0), 1, 1e-12);
      for (const double share : result) EXPECT_GE(share, 0);
      const Reals point = Combined(vectors, Reals(result.begin(), result.end()));
      vectors.pop_back();
      const Reals expected = OracleCentredClipping(vectors, Vector(n, 1.0f), centre);
      EXPECT_LT(DistanceOf(point, expected), 1e-6L * (1e-3L + NormOf(centre))) << seed << n;
    }
  }
}

TEST(CentredClippingShares, StayWhereAllUpdatesAre) {
  // Broken: a division by no distance.
  const Vectors same(4, BellValues(64, 1));
  const std::vector<double> shares = CentredClippingShares(ProductsOf(same), EqualShares(3));
  EXPECT_NEAR(std::accumulate(shares.begin(), shares.end(), 0.0), 1, 1e-12);
}

}  // namespace
}  // namespace atolld
