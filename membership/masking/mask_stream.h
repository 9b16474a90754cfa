// Mask streams: a secret is expanded to a long sequence of ring elements, which look uniformly
// random to anyone without the secret.
//
// The stream is ChaCha20 (RFC 8439). The nonce is four zero bytes followed by the chunk's number in
// the grid as u64 LE, and the block counter begins at 0. Element i takes the next `ring.bytes`
// bytes of the key stream, little-endian. Chunks are therefore independent of each other, and a
// reducer can remove the masks from only its own shard. Pure. May be called from any thread.
#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "compression/ring_codec.h"
#include "membership/masking/mask_secret.h"

namespace atolld {

enum class MaskSign { kAdd, kSubtract };

// Adds stream[i] to elements[i] in the ring, or subtracts it. Bits above the ring's width become 0.
void ApplyMask(const RingForm& ring, const MaskSecret& secret, uint64_t chunk, MaskSign sign,
               absl::Span<uint32_t> elements);

}  // namespace atolld
