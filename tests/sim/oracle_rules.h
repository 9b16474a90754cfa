// The rules that make updates one, a second time, for the oracle: docs/aggregation.md in its
// plainest form, one rounding an operation, no code shared with optimizer/. Pure; slow where that
// is simpler.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace atolld {

// One contributor's chunk, decoded.
struct OracleRow {
  std::vector<float> values;
  float weight = 1;
  float scale = 1;
};

// (sum of (w x s) x value + rest x centre) x (1 / sum of w), where rest is what of the weights the
// scales leave over; without a centre there is no rest.
std::vector<float> OracleWeightedMean(const std::vector<OracleRow>& rows,
                                      const std::vector<float>* centre);

// The named rule, which is another; no values if it takes more rows.
std::vector<float> OracleRobustMean(const std::string& rule, size_t faulty,
                                    const std::vector<OracleRow>& rows);

// The sum of squares of x, or of what it differs by from `from`: eight lanes in blocks of 1,024.
double OracleSquares(const std::vector<float>& x, const std::vector<float>* from);

}  // namespace atolld
