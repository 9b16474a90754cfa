// SHA-256 (FIPS 180-4) of one piece of data, and of many pieces of equal length in parallel, which
// is faster.
//
// All implementations give the same bits; tests check this on every SIMD target. Pure. May be
// called from any thread.
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

// Returns the Sha256 of each piece. Consecutive pieces of equal length are hashed in parallel,
// Sha256Together() at a time.
std::vector<Digest> Sha256Each(absl::Span<const absl::Span<const uint8_t>> pieces);

size_t Sha256Together();  // 1 if this CPU cannot hash in parallel

// -----------------------------------------------------------------------------------------------
// The implementations that Sha256Each chooses from.

// Hashes two pieces at once with the CPU's own SHA instructions. Each round waits for the one
// before it, so a single message leaves the unit idle half of the time; two messages take turns.
// The code follows section 6.2 of the standard with the instructions SHA256RNDS2, SHA256MSG1 and
// SHA256MSG2 (Intel SDM, vol. 2B).
inline constexpr size_t kPair = 2;

// Returns true if this CPU has the instructions. Otherwise Sha256Pair must not be called.
bool HasSha256Pair();

// Sets digests[i] to the digest of the `bytes` bytes at pieces[i], for i = 0 and 1.
void Sha256Pair(const uint8_t* const* pieces, size_t bytes, Digest* digests);

// Sha256InVectors hashes one piece in each lane of the vector registers, for CPUs with wide
// registers and no SHA instructions. With sixteen lanes this is twice as fast as hashing one piece
// at a time; with fewer lanes it is slower.

// Returns the number of lanes in this CPU's widest vector registers, which is the number of pieces
// that Sha256InVectors hashes at once.
size_t Sha256Lanes();

// Sets digests[i] to the digest of the `bytes` bytes at pieces[i]. There must be Sha256Lanes()
// pieces and digests.
void Sha256InVectors(absl::Span<const uint8_t* const> pieces, size_t bytes,
                     absl::Span<Digest> digests);

}  // namespace atolld
