#include "optimizer/selection_network.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tests/unit/compression/test_values.h"

namespace atolld {
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
