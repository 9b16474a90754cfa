// Error feedback: what a lossy codec left out of one update is added to the next.
//
//   a = Delta + beta * e        before encoding; q = Encode(a) is what is sent
//   e = a - Decode(q)           at the commit, if the header counts this peer as a contributor
//   e = a                       if it was left out: the whole update is still unsent
//
// The residual changes only at a commit, by the header, so retries and aborted attempts leave it
// alone. beta = 1 is the classical rule (Seide 2014, Karimireddy 2019), SparseLoCo uses 0.95. Every
// operation is rounded to fp32 on its own, so a residual can be recomputed from the log. Both work
// in place and chunk by chunk; spans may not overlap.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "compression/codec.h"

namespace atolld {

// update (in: Delta, out: a) = update + beta * residual. INVALID_ARGUMENT if the sizes differ or
// beta is not in [0, 1].
absl::Status AddResidual(float beta, absl::Span<const float> residual, absl::Span<float> update);

// residual (in: a, out: e) after a commit that counted the chunk: residual - Decode(sent). For a
// chunk that was left out there is nothing to do: a is the residual. INVALID_ARGUMENT names what is
// wrong with `sent`; nothing is changed then.
absl::Status SubtractSent(const Codec& codec, absl::Span<const uint8_t> sent,
                          absl::Span<float> residual);

}  // namespace atolld
