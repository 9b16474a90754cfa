// Sha256InVectors: digests of several pieces of one length at once, each in a lane of the vector
// registers; the same bits as Sha256 (digest.h), which tests check on every SIMD target.
//
// For CPUs that have wide registers and no SHA instructions. Sixteen lanes are twice as fast as
// those with one piece, fewer are slower: whoever asks looks at Sha256Lanes() first. FIPS 180-4,
// section 6.2. Pure functions, any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "membership/history/digest.h"

namespace atolld {

// Lanes of this CPU's widest registers: how many digests take as long as one.
size_t Sha256Lanes();

// Digest i is of the `bytes` bytes at pieces[i]. There are Sha256Lanes() pieces and digests.
void Sha256InVectors(absl::Span<const uint8_t* const> pieces, size_t bytes,
                     absl::Span<Digest> digests);

}  // namespace atolld
