// Ring codes: weighted updates as integers of one ring, so that their sum is exact and a mask can
// be added to each (membership/masking).
//
// All parties need one scale before they know each other's updates, so it is made of what everybody
// has: the mean of the entry before. Of block k of that mean, of 256 values (the last one may be
// short), with e_k the sum of its squares and n_k the number of its values:
//
//   rms_k = sqrt(e_k / n_k)      rms = sqrt(sum of e_k / sum of n_k)
//   range_k = 64 * max(rms_k, rms / 8)
//   step_k = the least power of two with  greatest * step_k >= range_k
//   greatest = floor((2^(8 * bytes - 1) - 1) / most)
//
// where `most` is the most updates that one sum has. An update is longer than a mean of many that
// do not agree, by up to the square root of their number, and its largest value some four times
// its rms: 64 leaves room for both in a sum of 255, and costs six bits of 32. Before the first
// entry, and after a mean of zeros, every range is the run's first one.
//
//   code  = round(value * weight / step_k), at most `greatest` either way;  0 < weight <= 1
//   mean  = (sum of codes, as a two's complement number) * step_k / (sum of weights)
//
// No sum of `most` codes leaves the ring, so the sum is that of the integers themselves, in any
// order. Unless a code was cut to `greatest` (those are counted), the mean of n updates is off by
// at most n * step_k / 2 / (sum of weights) with rounding to nearest even, twice that with
// stochastic rounding, whose expectation is the value. Weights are fp32, so value * weight is exact
// in double, and so is the division by a power of two: the same bits on every CPU.
// (Bonawitz et al. 2017, section 1, and 2019, arXiv:1912.00131, quantise for a ring in this way.)
//
// Pure functions, any thread.
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

// Which ring: integers modulo 2^(8 * bytes), for sums of at most `most` updates.
struct RingForm {
  uint32_t bytes = 4;  // of an element: 2, 3 or 4
  uint32_t most = 1;

  uint32_t element_mask() const { return 0xffffffffU >> (32 - 8 * bytes); }
  int32_t greatest() const {
    return static_cast<int32_t>((element_mask() >> 1) / (most == 0 ? 1 : most));
  }
};

// INVALID_ARGUMENT, with what would be right: another width, or so many updates that fewer than 127
// codes are left for each way of a value (no better than int8).
absl::Status CheckRingForm(const RingForm& ring);

// The exponents of step_k, one a block.
using RingSteps = std::vector<int16_t>;

// As they are before the first entry: every range is `first_range`, above 0 and finite.
RingSteps FirstRingSteps(const RingForm& ring, size_t elements, float first_range);

// After an entry with this mean, all of it decoded. Sums are in double, of a block in order, then
// over blocks in order.
RingSteps RingStepsAfter(const RingForm& ring, absl::Span<const float> mean, float first_range);

// The codes of a chunk's values, each modulo the ring, and returns how many were cut. `steps` are
// those of the chunk's blocks. INVALID_ARGUMENT names the first value that is not finite, or a
// weight that is not above 0 and at most 1.
absl::StatusOr<uint64_t> EncodeRing(const RingForm& ring, absl::Span<const int16_t> steps,
                                    absl::Span<const float> values, float weight,
                                    const Rounding& rounding, absl::Span<uint32_t> codes);

// sum[i] = sum[i] + codes[i] in the ring.
void AddRing(const RingForm& ring, absl::Span<const uint32_t> codes, absl::Span<uint32_t> sum);

// The mean of a sum without masks. `weight` is the sum of the weights that are in it: in double, of
// fp32 ones in roster order. INVALID_ARGUMENT unless it is above 0 and finite, and so is each value
// as fp32.
absl::Status DecodeRing(const RingForm& ring, absl::Span<const int16_t> steps,
                        absl::Span<const uint32_t> sum, double weight, absl::Span<float> mean);

// Elements as they travel: `ring.bytes` each, little-endian.
void PackRing(const RingForm& ring, absl::Span<const uint32_t> elements, absl::Span<uint8_t> bytes);
// INVALID_ARGUMENT: another length. Any bytes of the right length are elements.
absl::Status UnpackRing(const RingForm& ring, absl::Span<const uint8_t> bytes,
                        absl::Span<uint32_t> elements);

}  // namespace atolld
