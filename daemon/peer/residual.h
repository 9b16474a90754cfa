// Error feedback of one peer: what its sent updates lost is added to its next one.
//
//   a = update + decay * residual;  sent q = Encode(a)
//   after the commit: residual = a - Decode(q) where it was included, = a where it was left out
//
// (Error feedback as in compression/error_feedback.h; the run's decay is its beta.) The residual
// belongs to the peer alone and losing it is legal. Pure functions.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "atoll/v1/run.pb.h"
#include "compression/codec.h"
#include "daemon/exchange/exchange.h"
#include "membership/history/payload.h"

namespace atolld {

// What the run multiplies a residual by: 1 unless its spec says otherwise.
float FeedbackDecay(const v1::RunSpec& spec);

// `residual` holds a; subtracts Decode(chunk) for every chunk in which contributor number
// `position` of the header was included. Chunks that cannot be decoded keep a, and the first such
// error is returned.
absl::Status SubtractIncluded(const v1::EntryHeader& header, int position, const ChunkGrid& grid,
                              const Codec& codec, const Contribution& contribution,
                              absl::Span<float> residual);

}  // namespace atolld
