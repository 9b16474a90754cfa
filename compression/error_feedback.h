// Error feedback: the part of an update that a lossy codec has lost, called the residual, is added
// to the next update.
//
//   a = Delta + beta * e        before encoding; q = Encode(a) is sent
//   e = s * (a - Decode(q))     at the commit, if the header counts this peer as a contributor
//   e = s * a                   for a chunk that is not in the entry although others are
//   e                           unchanged if the header leaves the update out; it is offered again
//
// s <= 1 is the scale that the entry applied to an update that was too long, so the entry contains
// s * Decode(q). The part that the scale cut off is not added to the residual. Otherwise it would
// make the next update too long again, and would reach the entries after all, only later.
//
// The residual changes only at a commit and depends only on the header, so retries and aborted
// attempts leave it unchanged. beta = 1 is the original rule (Seide 2014, Karimireddy 2019);
// SparseLoCo uses 0.95. Every operation is rounded to fp32 on its own, so a residual can be
// recomputed from the log. The functions work in place, chunk by chunk, and the spans must not
// overlap. Pure. May be called from any thread.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "compression/codec.h"

namespace atolld {

// Sets update = update + beta * residual, so that `update` changes from Delta to a. Fails with
// INVALID_ARGUMENT if the sizes differ or beta is not in [0, 1].
absl::Status AddResidual(float beta, absl::Span<const float> residual, absl::Span<float> update);

// Sets residual -= Decode(sent), for a chunk that is in an entry. Fails with INVALID_ARGUMENT, and
// changes nothing, if `sent` is not valid; the message says why.
absl::Status SubtractSent(const Codec& codec, absl::Span<const uint8_t> sent,
                          absl::Span<float> residual);

// Sets residual *= share, where `share` is s in the formulas. A share of 1 changes no bit.
void CarryShare(float share, absl::Span<float> residual);

}  // namespace atolld
