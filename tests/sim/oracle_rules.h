// The rules that make updates one, a second time, for the oracle: docs/aggregation.md in its
// plainest form, one rounding an operation, no code shared with optimizer/. Pure; slow where that
// is simpler.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "atoll/v1/run.pb.h"

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

// Whether a run's updates lose by e to the power of their age, and by how much one of this age
// does.
bool OracleCountsAges(const v1::RunSpec& spec);
double OracleAgeFactor(const v1::RunSpec& spec, uint32_t age);

// What is wrong with the scalars by which the entry's step follows from what it is made of; empty:
// nothing. `former` is the header before, without a version where there is none; `squared_mean`
// that of this entry's mean.
std::string OracleStepScalars(const v1::RunSpec& spec, const v1::EntryHeader& header,
                              const v1::EntryHeader& former, double squared_mean);

// The sum of squares of x, or of what it differs by from `from`: eight lanes in blocks of 1,024.
double OracleSquares(const std::vector<float>& x, const std::vector<float>* from);

}  // namespace atolld
