// Mask streams: a secret as a long row of ring elements, uniform to whoever lacks the secret.
//
// ChaCha20 (RFC 8439): the nonce is the number of the chunk in the grid as u64 LE behind four zero
// bytes, the block counter begins at 0, and element i takes the next `ring.bytes` bytes of the key
// stream, little-endian. So chunks are independent of each other, and every reducer removes masks
// from its own shard alone. Pure functions, any thread.
#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "compression/ring_codec.h"
#include "membership/masking/mask_secret.h"

namespace atolld {

enum class MaskSign { kAdd, kSubtract };

// elements[i] = elements[i] + stream[i], or minus it, in the ring: what lies above its bits is 0
// afterwards.
void ApplyMask(const RingForm& ring, const MaskSecret& secret, uint64_t chunk, MaskSign sign,
               absl::Span<uint32_t> elements);

}  // namespace atolld
