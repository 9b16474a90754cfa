// Recomputes the aggregation rules as plainly as possible: on whole vectors, in long double or,
// where bits are compared, in fp32 with one operation per line. Shares no code with optimizer/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "optimizer/aggregation_rule.h"
#include "tests/unit/compression/test_values.h"

namespace atolld {

using Vector = std::vector<float>;
using Vectors = std::vector<Vector>;
using Reals = std::vector<long double>;

std::vector<absl::Span<const float>> SpansOf(const Vectors& vectors);

// Returns the updates of one round. Each is the sum of a signal that is the same for all, and its
// own noise of the given size.
Vectors HonestUpdates(size_t contributors, size_t elements, float noise, uint64_t seed);

long double DistanceOf(const Reals& a, const Reals& b);

Reals RealsOf(const Vector& values);

long double NormOf(const Vector& values);

long double OracleLowerMedian(Reals values);

// Returns the sum of factors[i] x updates[i].
Reals Combined(const Vectors& updates, const Reals& factors);

// Returns the plain mean of a coordinate's values without the `trim` least and greatest ones.
float OracleTrimmed(Vector column, size_t trim);

Vector OracleTrimmedMean(const Vectors& updates, const Vector& scales, size_t trim);

// Returns the contributors in the order of Krum's score, best first.
std::vector<size_t> OracleKrumOrder(const Vectors& updates, size_t faulty);

// Returns the sum that the geometric median minimises.
long double DistanceSum(const Vectors& updates, const Vector& weights, const Reals& point);

// Runs Weiszfeld's algorithm on whole vectors, beginning at the mean, until nothing changes.
Reals OracleGeometricMedian(const Vectors& updates, const Vector& weights);

Reals OracleCentredClipping(const Vectors& updates, const Vector& weights, const Vector& centre);

// Runs the three steps of a rule on updates that make one chunk.
absl::StatusOr<Vector> Aggregate(const AggregationRule& rule, const Vectors& updates,
                                 const Vector& weights, const Vector& centre = {},
                                 double reference_norm = 0);

AggregationRule RuleOf(const std::string& name, uint32_t faulty = 0, double clip = 0);

}  // namespace atolld
