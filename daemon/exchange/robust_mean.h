// The rules other than the weighted mean, carried out on one chunk: by the values of those whose
// chunk is here, and nothing else of their updates.
//
// A rule by coordinates needs no more. Krum and the geometric median judge by the products of this
// chunk's values alone, so each chunk has a choice of its own, and each bears the liars that the
// rule is made for. Centred clipping is one step from the mean of the entry before, whole updates'
// pulls being cut by the plan's scales c_i:
//
//   mean = (sum of (w_i * c_i) * x_i + rest * v) * (1 / sum of w_i)
//   rest = max(0, sum of w_i - sum of w_i * c_i)
//
// all in fp32, each sum in roster order, each operation rounded on its own; nothing is added for v
// where the rest is 0. Pure functions, any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "daemon/exchange/chunk_work.h"

namespace atolld {

// Whether there is a v that is not zero.
bool HasCentre(const MeanTerms& terms);

// sum = sum + rest * v, of the chunk; `pulls` are w_i * c_i.
absl::Status AddCentre(const MeanTerms& terms, uint32_t chunk, absl::Span<const float> weights,
                       absl::Span<const float> pulls, absl::Span<float> sum);

// `terms.rule` of the pieces, which are single contributors' chunks, ascending; sets `mean` and
// whose chunks it was made of. FAILED_PRECONDITION: the rule takes more than are here.
absl::Status RobustPieces(const ChunkForm& updates, const MeanTerms& terms,
                          const std::vector<Piece>& pieces, absl::Span<float> mean,
                          Reduced* reduced);

}  // namespace atolld
