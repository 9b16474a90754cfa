// Sha256Pair: digests of two pieces of one length at once, by the CPU's own SHA instructions; the
// same bits as Sha256 (digest.h), which tests check.
//
// A round waits for the one before it, so that one message leaves the unit idle half the time: two
// take turns. FIPS 180-4, section 6.2, in the steps of the instructions SHA256RNDS2, SHA256MSG1 and
// SHA256MSG2 (Intel SDM, vol. 2B). Pure functions, any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "membership/history/digest.h"

namespace atolld {

inline constexpr size_t kPair = 2;

// Whether this CPU has the instructions: where not, Sha256Pair is not to be called.
bool HasSha256Pair();

// Digest i is of the `bytes` bytes at pieces[i]. There are two of each.
void Sha256Pair(const uint8_t* const* pieces, size_t bytes, Digest* digests);

}  // namespace atolld
