// Ring codes: encode weighted updates as elements of a ring of integers modulo 2^n. The sum of such
// elements is exact, and a mask can be added to each update (see membership/masking).
//
// All parties must use the same scale, before they know each other's updates. The scale is
// therefore computed from the mean of the previous entry, which all of them have. Block k of that
// mean has 256 values (the last block may be shorter); e_k is the sum of their squares and n_k
// their number:
//
//   rms_k = sqrt(e_k / n_k)      rms = sqrt(sum of e_k / sum of n_k)
//   range_k = 64 * max(rms_k, rms / 8)
//   step_k = the least power of two with  greatest * step_k >= range_k
//   greatest = floor((2^(8 * bytes - 1) - 1) / most)
//
// `most` is the greatest number of updates in one sum. An update may be longer than the mean of n
// updates by a factor of up to sqrt(n), and its largest value is some four times its rms. The
// factor 64 leaves room for both in a sum of 255 updates, and costs six bits of 32. Before the
// first entry, and after a mean of zeros, every range is the run's first range.
//
//   code  = round(value * weight / step_k), at most `greatest` either way;  0 < weight <= 1
//   mean  = (sum of codes, as a two's complement number) * step_k / (sum of weights)
//
// A sum of `most` codes never overflows the ring, so it equals the sum of the integers, in any
// order. If no code was cut to `greatest` (such codes are counted), the error of the mean of n
// updates is at most n * step_k / 2 / (sum of weights) with rounding to nearest even. With
// stochastic rounding, which is right on average, it is at most twice that. Weights are fp32, so
// value * weight and the division by a power of two are exact in double, and the bits are the same
// on every CPU. (Bonawitz et al. 2017, section 1, and 2019, arXiv:1912.00131, quantise for a ring
// in this way.)
//
// Pure. May be called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "compression/codec.h"

namespace atolld {

inline constexpr size_t kRingBlockElements = 256;

// Describes a ring: integers modulo 2^(8 * bytes), for sums of at most `most` updates.
struct RingForm {
  uint32_t bytes = 4;  // the bytes of an element: 2, 3 or 4
  uint32_t most = 1;

  uint32_t element_mask() const { return 0xffffffffU >> (32 - 8 * bytes); }
  int32_t greatest() const {
    return static_cast<int32_t>((element_mask() >> 1) / (most == 0 ? 1 : most));
  }
};

// The exponents of step_k, one for each block.
using RingSteps = std::vector<int16_t>;

// Returns the steps that are used before the first entry. Every range is then `first_range`, which
// must be finite and above 0.
RingSteps FirstRingSteps(const RingForm& ring, size_t elements, float first_range);

// Returns the steps that are used after an entry. `mean` is the entry's whole decoded mean. Sums
// are computed in double, first over the values of each block in order, then over the blocks in
// order.
RingSteps RingStepsAfter(const RingForm& ring, absl::Span<const float> mean, float first_range);

// Encodes a chunk's values as ring elements and returns how many codes were cut to `greatest`.
// `steps` has the steps of the chunk's blocks. Fails with INVALID_ARGUMENT if a value is not finite
// (the message names the first one), or if the weight is not above 0 and at most 1.
absl::StatusOr<uint64_t> EncodeRing(const RingForm& ring, absl::Span<const int16_t> steps,
                                    absl::Span<const float> values, float weight,
                                    const Rounding& rounding, absl::Span<uint32_t> codes);

// Sets sum[i] = sum[i] + codes[i] in the ring.
void AddRing(const RingForm& ring, absl::Span<const uint32_t> codes, absl::Span<uint32_t> sum);

// Computes the mean from a sum without masks. `weight` is the sum of the fp32 weights of the
// updates in the sum, added in double in roster order. Fails with INVALID_ARGUMENT if `weight` is
// not above 0 and finite, or if a value of the mean is not finite as fp32.
absl::Status DecodeRing(const RingForm& ring, absl::Span<const int16_t> steps,
                        absl::Span<const uint32_t> sum, double weight, absl::Span<float> mean);

// Writes elements in the form in which they are sent: `ring.bytes` bytes each, little-endian.
void PackRing(const RingForm& ring, absl::Span<const uint32_t> elements, absl::Span<uint8_t> bytes);
// Reads what PackRing has written. Fails with INVALID_ARGUMENT if `bytes` has a wrong length. Any
// bytes of the right length are valid elements.
absl::Status UnpackRing(const RingForm& ring, absl::Span<const uint8_t> bytes,
                        absl::Span<uint32_t> elements);

}  // namespace atolld
