// WeightedMean: how a reducer averages one chunk over its contributors, as arithmetic that anybody
// can repeat.
//
//   sum[i]  = +0, then for each contributor in roster order: sum[i] = sum[i] + w * value[i]
//   total   = +0, then for each contributor in roster order: total = total + w
//   mean[i] = sum[i] * (1 / total)
//
// All in fp32, each operation rounded to nearest even on its own: no fused multiply-add, no double,
// no other order. An independent program recomputes the mean from the header's contributors and
// weights and gets the same bits.
//
// Codec::DecodeSum does all of it with MeanFactor(weights); where not all chunks are of one codec,
// or a centre is added, it makes the sum alone, the others follow by Codec::DecodeAccumulate, and
// FinishMean ends it. Pure functions, any thread.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace atolld {

// 1 / total. INVALID_ARGUMENT if there are no weights, if one is not finite and above 0, or if 1 /
// total is not a normal number (totals of about 1e38 or 1e-38).
absl::StatusOr<float> MeanFactor(absl::Span<const float> weights);

// Turns the sum into the mean: sum[i] = sum[i] * MeanFactor(weights); `weights` are those of the
// contributors that were accumulated, in the same order. Nothing is changed on error. A sum that
// overflowed stays infinite: encoding refuses it.
absl::Status FinishMean(absl::Span<const float> weights, absl::Span<float> sum);

}  // namespace atolld
