// The same updates give the same mean, to the last bit, under every SIMD target and in every
// release; and networks select what they should.
#include "optimizer/aggregation_kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "compression/simd.h"
#include "tests/unit/compression/test_values.h"
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
      {"centred_clipping", "5f5c0cba6b2a3a6250e8d52f033fa4cdeefcd8a5057e46745895b3c68eda168f"},
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

namespace {

// Rows that nothing reads later are spoilt, so that a rank that depends on one is seen.
std::vector<uint32_t> Run(const std::vector<Comparator>& network, std::vector<uint32_t> rows) {
  for (const Comparator& comparator : network) {
    const uint32_t a = rows[comparator.low], b = rows[comparator.high];
    rows[comparator.low] = comparator.needs_low ? std::min(a, b) : 12345;
    rows[comparator.high] = comparator.needs_high ? std::max(a, b) : 12345;
  }
  return rows;
}

// Whether the ranks stand in their rows.
testing::AssertionResult Selects(const std::vector<Comparator>& network,
                                 const std::vector<uint32_t>& rows, size_t first, size_t end) {
  const std::vector<uint32_t> result = Run(network, rows);
  std::vector<uint32_t> sorted = rows;
  std::sort(sorted.begin(), sorted.end());
  for (size_t r = first; r < end; ++r) {
    if (result[r] != sorted[r]) {
      return testing::AssertionFailure() << "rank " << r << " of " << rows.size();
    }
  }
  return testing::AssertionSuccess();
}

TEST(SelectionNetwork, SelectsWhateverTheValuesOfFewRows) {
  // Broken: a trimmed mean would keep what it should drop. By the 0-1 principle (Knuth, 5.3.4) a
  // network that is right for all zeros and ones is right for all values.
  for (size_t n = 1; n <= 11; ++n) {
    for (size_t first = 0; first < n; ++first) {
      for (size_t end = first + 1; end <= n; ++end) {
        const std::vector<Comparator> network = SelectionNetwork(n, first, end);
        for (uint32_t bits = 0; bits < 1u << n; ++bits) {
          std::vector<uint32_t> rows(n);
          for (size_t r = 0; r < n; ++r) rows[r] = bits >> r & 1;
          ASSERT_TRUE(Selects(network, rows, first, end)) << first << " " << end;
        }
      }
    }
  }
}

TEST(SelectionNetwork, SelectsOfManyRows) {
  // Broken: as above, for crowds.
  TestRandom random(1);
  for (size_t n = 12; n <= 64; ++n) {
    for (const size_t trim : {size_t{0}, size_t{1}, n / 4, (n - 1) / 2}) {
      const std::vector<Comparator> network = SelectionNetwork(n, trim, n - trim);
      for (int draw = 0; draw < 100; ++draw) {
        // Of few different values, so that there are ties.
        const uint32_t different = 1 + random.Next() % (2 * static_cast<uint32_t>(n));
        std::vector<uint32_t> rows(n);
        for (uint32_t& row : rows) row = random.Next() % different;
        ASSERT_TRUE(Selects(network, rows, trim, n - trim)) << trim;
      }
    }
  }
}

TEST(SelectionNetwork, LeavesOutWhatNoChosenRankDependsOn) {
  // Broken: medians would cost what sorting costs.
  EXPECT_EQ(SelectionNetwork(8, 0, 8).size(), 19u);  // the fewest for 8 (Knuth, 5.3.4)
  EXPECT_LT(SelectionNetwork(8, 3, 5).size(), 19u);
  EXPECT_EQ(SelectionNetwork(8, 0, 1).size(), 7u);  // a minimum
  EXPECT_TRUE(SelectionNetwork(1, 0, 1).empty());
  for (const Comparator& comparator : SelectionNetwork(64, 31, 33)) {
    EXPECT_LT(comparator.low, comparator.high);
    EXPECT_TRUE(comparator.needs_low || comparator.needs_high);
  }
}

}  // namespace

}  // namespace atolld
