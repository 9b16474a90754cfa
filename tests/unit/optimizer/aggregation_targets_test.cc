// The same updates give the same mean, to the last bit, under every SIMD target and in every
// release.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "compression/simd_target.h"
#include "optimizer/aggregation_kernels.h"
#include "tests/unit/optimizer/aggregation_oracle.h"

namespace atolld {
namespace {

TEST(AggregationTargets, SumsAreThePlainLoopsOnEveryTarget) {
  // Broken: reducers on different CPUs would average to different bits.
  for (const size_t elements : {1, 2, 7, 15, 16, 17, 33, 127, 128, 129, 1000, 4099}) {
    for (const size_t n : {1, 2, 3, 8, 65}) {
      Vectors updates;
      std::vector<ScaledRow> rows;
      for (size_t i = 0; i < n; ++i) updates.push_back(BellValues(elements + 1, i + 1));
      // One float off: a chunk begins anywhere in memory.
      for (size_t i = 0; i < n; ++i) {
        rows.push_back({updates[i].data() + 1, 1.0f / static_cast<float>(i + 1)});
      }
      Vector expected(elements, 0.0f);
      for (size_t k = 0; k < elements; ++k) {
        for (const ScaledRow& row : rows) {
          const volatile float product = row.factor * row.values[k];
          expected[k] = expected[k] + product;
        }
        const volatile float sum = expected[k];
        expected[k] = sum * 0.37f;
      }
      for (const std::string& target : SimdTargetNames()) {
        const ScopedSimdTarget pinned(target);
        Vector out(elements);
        WeightedSum(rows.data(), n, 0.37f, elements, out.data());
        EXPECT_TRUE(SameBits(out, expected)) << target << elements << " " << n;
      }
    }
  }
}

TEST(AggregationTargets, MeansOfRanksAreThoseOfSortedColumnsOnEveryTarget) {
  // Broken: as above, for the rules by coordinates; zeros of both signs and denormals among them.
  for (const size_t elements : {1, 2, 7, 15, 16, 17, 33, 127, 128, 129, 300}) {
    for (const size_t n : {1, 2, 3, 8, 13, 64}) {
      Vectors updates;
      Vector scales(n, 1.0f);
      for (size_t i = 0; i < n; ++i) {
        updates.push_back(i % 2 == 0 ? AnyFiniteValues(elements, i + 1)
                                     : BellValues(elements, i + 1));
        for (size_t k = 0; k < elements; k += 5) updates[i][k] *= 0.0f;
      }
      scales[n / 2] = 0.3f;
      std::vector<ScaledRow> rows;
      for (size_t i = 0; i < n; ++i) rows.push_back({updates[i].data(), scales[i]});
      for (const size_t trim : {size_t{0}, (n - 1) / 4, (n - 1) / 2}) {
        const Vector expected = OracleTrimmedMean(updates, scales, trim);
        for (const std::string& target : SimdTargetNames()) {
          const ScopedSimdTarget pinned(target);
          Vector out(elements);
          MeanOfRanks(rows.data(), n, SelectionNetwork(n, trim, n - trim), trim, n - trim, elements,
                      out.data());
          EXPECT_TRUE(SameBits(out, expected)) << target << elements << " " << n << " " << trim;
        }
      }
    }
  }
}

// rule -> digest of the mean of a round; the same on every target, machine and release.
const std::map<std::string, std::string>& GoldenDigests() {
  static const auto& digests = *new std::map<std::string, std::string>{
      {"centred_clipping", "25ebb3b4dbb849227cefa2a4d3c5c0af32718e6f3180d7e0bd16ed57cae75528"},
      {"geometric_median", "474e699f81b4ffb5168676ab12795b20125d735cf30890845ef5422574021e4a"},
      {"krum", "b0c650ecc272d9dd29dca2c8d71d8d2e1519f8cd8a8b14272535d5155ccf03fe"},
      {"mean", "57d6e0ff45a765b8618bb0984c66fca2fe97ca3c5764ec693fae34d624114944"},
      {"median", "40866f913906a60a107ef3eb11713bce67e877439cc97174d266bd3311ec11a1"},
      {"multi_krum", "41d395c7acc7faaee4d305fe18af16da10a8c2a1e4666713fa146573722f1c10"},
      {"sent_mean", "b7fbd654cfd415f4353bec6e8eb3c726c3dbec4c61e2e13c6ad387a3d2f59f24"},
      {"trimmed_mean", "ff9999f55e217fda8dac57d5cecaa9136835f79840f63ea69b2a4a74631601b2"}};
  return digests;
}

TEST(AggregationTargets, WholeRulesHaveTheSameDigestEverywhere) {
  // Broken: an audit on another machine, or by another release, would call an honest reducer a
  // liar.
  Vectors updates = HonestUpdates(9, 5003, 0.5f, 21);
  for (float& value : updates[2]) value *= -7;
  for (float& value : updates[6]) value *= 1e12f;
  const Vector weights = {1, 2, 0.3f, 1, 17, 5, 1, 0.7f, 1};
  const Vector centre = BellValues(5003, 21);
  for (const std::string& name : AggregationRule::Names()) {
    const AggregationRule rule = RuleOf(name, name == "mean" || name == "sent_mean" ? 0 : 2, 1.25);
    for (const std::string& target : SimdTargetNames()) {
      const ScopedSimdTarget pinned(target);
      const Vector mean = Aggregate(rule, updates, weights, centre).value();
      EXPECT_EQ(Sha256Hex(mean.data(), mean.size() * sizeof(float)), GoldenDigests().at(name))
          << name << " " << target;
    }
  }
}

}  // namespace
}  // namespace atolld
