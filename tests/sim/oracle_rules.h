// Recomputes, for the oracle, the rules that combine updates. It follows docs/aggregation.md in the
// plainest form, with one rounding per operation, and shares no code with optimizer/. Pure. Slow
// where slow code is simpler.
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

// Returns (sum of (w x s) x value + rest x centre) x (1 / sum of w), where rest is the sum of w x
// (1 - s). Without a centre, rest is 0.
std::vector<float> OracleWeightedMean(const std::vector<OracleRow>& rows,
                                      const std::vector<float>* centre);

// Returns the result of the named rule, which must not be the weighted mean, or an empty vector if
// the rule needs more rows.
std::vector<float> OracleRobustMean(const std::string& rule, size_t faulty,
                                    const std::vector<OracleRow>& rows);

// OracleCountsAges returns true if a run's updates are scaled down by e to the power of their age;
// OracleAgeFactor returns the factor for this age.
bool OracleCountsAges(const v1::RunSpec& spec);
double OracleAgeFactor(const v1::RunSpec& spec, uint32_t age);

// Returns what is wrong with the scalars of the entry's step, which follow from its content; empty
// if they are right. `former` is the previous header, or one with version 0 if there is none;
// `squared_mean` is that of this entry's mean.
std::string OracleStepScalars(const v1::RunSpec& spec, const v1::EntryHeader& header,
                              const v1::EntryHeader& former, double squared_mean);

// Returns the sum of squares of x, or of its difference from `from`: eight lanes in blocks of
// 1,024.
double OracleSquares(const std::vector<float>& x, const std::vector<float>* from);

}  // namespace atolld
