// SHA-256: of one piece, and of many of one length side by side, which is faster.
//
// All ways give the same bits, which tests check on every SIMD target. FIPS 180-4. Pure functions,
// any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace atolld {

inline constexpr size_t kDigestBytes = 32;
using Digest = std::array<uint8_t, kDigestBytes>;

Digest Sha256(absl::Span<const uint8_t> bytes);

// Sha256 of each piece; Sha256Together() of one length that follow each other are taken side by
// side.
std::vector<Digest> Sha256Each(absl::Span<const absl::Span<const uint8_t>> pieces);

size_t Sha256Together();  // 1 where this CPU has nothing for it

// -----------------------------------------------------------------------------------------------
// The ways that Sha256Each chooses from.

// Two pieces at once by the CPU's own SHA instructions. A round waits for the one before it, so
// that one message leaves the unit idle half the time: two take turns. Section 6.2 in the steps of
// SHA256RNDS2, SHA256MSG1 and SHA256MSG2 (Intel SDM, vol. 2B).
inline constexpr size_t kPair = 2;

// Whether this CPU has the instructions: where not, Sha256Pair is not to be called.
bool HasSha256Pair();

// Digest i is of the `bytes` bytes at pieces[i]. There are two of each.
void Sha256Pair(const uint8_t* const* pieces, size_t bytes, Digest* digests);

// One piece in each lane of the vector registers, for CPUs that have wide registers and no SHA
// instructions. Sixteen lanes are twice as fast as those with one piece, fewer are slower.

// Lanes of this CPU's widest registers: how many digests take as long as one.
size_t Sha256Lanes();

// Digest i is of the `bytes` bytes at pieces[i]. There are Sha256Lanes() pieces and digests.
void Sha256InVectors(absl::Span<const uint8_t* const> pieces, size_t bytes,
                     absl::Span<Digest> digests);

}  // namespace atolld
