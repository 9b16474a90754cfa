#include "optimizer/update_products.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "compression/simd.h"
#include "optimizer/aggregation_kernels.h"
#include "tests/unit/optimizer/aggregation_oracle.h"

namespace atolld {
namespace {

using testing::HasSubstr;
using Kind = UpdateProducts::Kind;

// The sum of a chunk as aggregation_kernels.h states it.
double ChunkProduct(const Vector& x, const Vector& y) {
  double sum = 0;
  for (size_t begin = 0; begin < x.size(); begin += 1024) {
    double lanes[8] = {};
    for (size_t i = begin; i < std::min(begin + 1024, x.size()); ++i) {
      double& lane = lanes[(i - begin) % 8];
      const volatile double product = static_cast<double>(x[i]) * static_cast<double>(y[i]);
      lane = lane + product;
    }
    for (const size_t half : {4, 2, 1}) {
      for (size_t l = 0; l < half; ++l) lanes[l] = lanes[l] + lanes[l + half];
    }
    sum = sum + lanes[0];
  }
  return sum;
}

bool SameDoubles(absl::Span<const double> a, absl::Span<const double> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0;
}

TEST(SquaredDistance, IsTheStatedSumOnEveryTarget) {
  // Broken: what a contributor tells of its update would not be what a reducer on another CPU
  // finds.
  for (const size_t elements : {1, 7, 8, 9, 1023, 1024, 1025, 4096, 4099, 9221}) {
    const Vector x = AnyFiniteValues(elements + 1, 5);
    const Vector y = BellValues(elements + 1, 6);
    double sum = 0;
    for (size_t begin = 0; begin < elements; begin += 1024) {
      double lanes[8] = {};
      for (size_t i = begin; i < std::min(begin + 1024, elements); ++i) {
        const volatile double difference =
            static_cast<double>(x[i + 1]) - static_cast<double>(y[i + 1]);
        const volatile double square = difference * difference;
        lanes[(i - begin) % 8] = lanes[(i - begin) % 8] + square;
      }
      for (const size_t half : {4, 2, 1}) {
        for (size_t l = 0; l < half; ++l) lanes[l] = lanes[l] + lanes[l + half];
      }
      sum = sum + lanes[0];
    }
    for (const std::string& target : SimdTargetNames()) {
      const ScopedSimdTarget pinned(target);
      // One float off: a chunk begins anywhere in memory.
      const double distance = SquaredDistance(x.data() + 1, y.data() + 1, elements);
      EXPECT_TRUE(SameDoubles({&distance, 1}, {&sum, 1})) << target << elements;
      const Vector part(x.begin() + 1, x.end());
      const double norm = SquaredNorm(x.data() + 1, elements), stated = ChunkProduct(part, part);
      EXPECT_TRUE(SameDoubles({&norm, 1}, {&stated, 1})) << target << elements;
    }
  }
}

TEST(UpdateProducts, AreTheStatedSumsOnEveryTarget) {
  // Broken: reducers on different CPUs would weigh the same updates differently, and no auditor
  // could repeat a plan.
  for (const size_t elements : {1, 2, 7, 8, 9, 63, 1023, 1024, 1025, 4099}) {
    for (const size_t vectors : {1, 2, 3, 4, 5, 8, 9, 65}) {
      Vectors rows;
      for (size_t i = 0; i < vectors; ++i) rows.push_back(BellValues(elements, i + 1));
      rows[0] = AnyFiniteValues(elements, 3);
      std::vector<double> products, norms;
      for (size_t i = 0; i < vectors; ++i) {
        for (size_t j = 0; j <= i; ++j) products.push_back(ChunkProduct(rows[i], rows[j]));
        norms.push_back(products.back());
      }
      for (const std::string& target : SimdTargetNames()) {
        const ScopedSimdTarget pinned(target);
        UpdateProducts all(Kind::kProducts, vectors), diagonal(Kind::kNorms, vectors);
        ASSERT_TRUE(all.AddChunk(SpansOf(rows)).ok());
        ASSERT_TRUE(diagonal.AddChunk(SpansOf(rows)).ok());
        EXPECT_TRUE(SameDoubles(all.sums(), products)) << target << elements << " " << vectors;
        EXPECT_TRUE(SameDoubles(diagonal.sums(), norms)) << target << elements << " " << vectors;
      }
    }
  }
}

TEST(UpdateProducts, AddUpChunksAndShardsInTheStatedOrder) {
  // Broken: the sum would depend on which reducer answered first.
  const Vectors chunks[] = {{BellValues(500, 1), BellValues(500, 2)},
                            {BellValues(300, 3), BellValues(300, 4)},
                            {BellValues(700, 5), BellValues(700, 6)}};
  UpdateProducts first(Kind::kProducts, 2), second(Kind::kProducts, 2);
  ASSERT_TRUE(first.AddChunk(SpansOf(chunks[0])).ok());
  ASSERT_TRUE(first.AddChunk(SpansOf(chunks[1])).ok());
  ASSERT_TRUE(second.AddChunk(SpansOf(chunks[2])).ok());
  ASSERT_TRUE(first.Add(second).ok());
  const auto of = [&](size_t chunk, size_t i, size_t j) {
    return ChunkProduct(chunks[chunk][i], chunks[chunk][j]);
  };
  EXPECT_EQ(first.Product(0, 1), (of(0, 0, 1) + of(1, 0, 1)) + of(2, 0, 1));
  EXPECT_EQ(first.Product(1, 0), first.Product(0, 1));
  EXPECT_EQ(first.SquaredNorm(1), (of(0, 1, 1) + of(1, 1, 1)) + of(2, 1, 1));
}

TEST(UpdateProducts, AreNearlyExact) {
  // Broken: distances between near updates would be noise.
  const Vectors rows = HonestUpdates(2, 200000, 0.01f, 1);
  UpdateProducts products(Kind::kProducts, 2);
  ASSERT_TRUE(products.AddChunk(SpansOf(rows)).ok());
  const long double distance = DistanceOf(RealsOf(rows[0]), RealsOf(rows[1]));
  EXPECT_NEAR(std::sqrt(products.SquaredDistance(0, 1)) / static_cast<double>(distance), 1, 1e-8);
  EXPECT_NEAR(products.Norm(0) / static_cast<double>(NormOf(rows[0])), 1, 1e-13);
}

TEST(UpdateProducts, OfEqualUpdatesHaveNoDistance) {
  // Broken: a geometric median of equal updates would be governed by rounding.
  const Vector update = BellValues(5000, 1);
  UpdateProducts products(Kind::kProducts, 3);
  ASSERT_TRUE(products.AddChunk(SpansOf({update, update, update})).ok());
  EXPECT_EQ(products.SquaredDistance(0, 2), 0);
}

TEST(UpdateProducts, TakeAnEmptyCentreForZeros) {
  // Broken: the first round, which has no round before it, could not use a rule with a centre.
  const Vector update = BellValues(100, 1);
  UpdateProducts products(Kind::kProducts, 3);
  ASSERT_TRUE(products.AddChunk({update, {}, update}).ok());
  EXPECT_EQ(products.SquaredNorm(1), 0);
  EXPECT_EQ(products.Product(0, 1), 0);
  EXPECT_EQ(products.Product(2, 0), ChunkProduct(update, update));
}

TEST(UpdateProducts, OfScaledVectorsAreScaled) {
  // Broken: a rule after clipping would judge other updates than it averages.
  const Vectors rows = {BellValues(1000, 1), BellValues(1000, 2)};
  Vectors scaled = rows;
  for (float& value : scaled[1]) value *= 0.25f;  // exact
  UpdateProducts products(Kind::kProducts, 2), expected(Kind::kProducts, 2);
  UpdateProducts norms(Kind::kNorms, 2);
  ASSERT_TRUE(products.AddChunk(SpansOf(rows)).ok());
  ASSERT_TRUE(expected.AddChunk(SpansOf(scaled)).ok());
  ASSERT_TRUE(norms.AddChunk(SpansOf(rows)).ok());
  EXPECT_TRUE(SameDoubles(products.Scaled({1.0, 0.25}).sums(), expected.sums()));
  EXPECT_EQ(norms.Scaled({1.0, 0.25}).SquaredNorm(1), expected.SquaredNorm(1));
}

TEST(UpdateProducts, RefuseShapesThatDiffer) {
  // Broken: memory would be read beyond a chunk's end.
  const Vector four(4, 1.0f), five(5, 1.0f);
  UpdateProducts products(Kind::kProducts, 2);
  EXPECT_FALSE(products.AddChunk({four}).ok());
  EXPECT_THAT(products.AddChunk({four, five}).message(), HasSubstr("update 1 has 5 values"));
  EXPECT_FALSE(products.Add(UpdateProducts(Kind::kNorms, 2)).ok());
  EXPECT_FALSE(products.Add(UpdateProducts(Kind::kProducts, 3)).ok());
  UpdateProducts crowd(Kind::kNorms, 66);
  EXPECT_FALSE(crowd.AddChunk(std::vector<absl::Span<const float>>(66, four)).ok());
  EXPECT_EQ(products.Product(0, 1), 0);
}

TEST(UpdateProducts, RefuseSumsThatNoVectorsHave) {
  // Broken: an update without a finite norm could turn every weight into a NaN.
  const std::vector<float> sound = {1.0F, 2.0F};
  for (const float wrong : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    const std::vector<float> bad = {1.0F, wrong};
    UpdateProducts products(Kind::kNorms, 2);
    ASSERT_TRUE(products.AddChunk({sound, bad}).ok());
    const absl::Status status = products.Check();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr("the squared norm of update 1 is"));
  }
}

}  // namespace
}  // namespace atolld
