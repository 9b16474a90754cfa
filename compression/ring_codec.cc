#include "compression/ring_codec.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "compression/base/check.h"

namespace atolld {
namespace {

constexpr double kRangeInRms = 64;     // ring_codec.h says why
constexpr double kQuietBlock = 0.125;  // a block's least rms, in those of the whole mean
// The limits of the steps that fp32 values can have. A power of two in this range is a finite
// double, and so is its product with a code.
constexpr int kLeastExponent = -149;
constexpr int kMostExponent = 127;

int16_t StepFor(const RingForm& ring, double range) {
  int exponent = 0;
  const double fraction = std::frexp(range / ring.greatest(), &exponent);
  if (fraction == 0.5) --exponent;  // it is a power of two itself
  return static_cast<int16_t>(std::clamp(exponent, kLeastExponent, kMostExponent));
}

size_t RingBlocks(size_t elements) {
  return (elements + kRingBlockElements - 1) / kRingBlockElements;
}

double SumOfSquares(absl::Span<const float> values) {
  double sum = 0;
  for (const float value : values) sum = sum + static_cast<double>(value) * value;
  return sum;
}

// Returns SplitMix64's value (Steele, Lea, Flood 2014) for place i: 53 bits, below 1.
double DitherAt(uint64_t key, uint64_t place) {
  uint64_t h = key + (place + 1) * 0x9e3779b97f4a7c15ULL;
  h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9ULL;
  h = (h ^ (h >> 27)) * 0x94d049bb133111ebULL;
  h = h ^ (h >> 31);
  return static_cast<double>(h >> 11) * 0x1p-53;
}

double RoundedCode(double scaled, const Rounding& rounding, uint64_t place) {
  if (!rounding.stochastic) return std::nearbyint(scaled);
  const double below = std::floor(scaled);
  return DitherAt(rounding.key, place) < scaled - below ? below + 1 : below;
}

double PowerOfTwo(int exponent) { return std::ldexp(1.0, exponent); }

// Returns the number that an element stands for.
int32_t SignedElement(const RingForm& ring, uint32_t element) {
  const uint32_t sign = (ring.element_mask() >> 1) + 1;
  return static_cast<int32_t>((element ^ sign) - sign);
}

}  // namespace

RingSteps FirstRingSteps(const RingForm& ring, size_t elements, float first_range) {
  CHECK(std::isfinite(first_range) && first_range > 0);
  return RingSteps(RingBlocks(elements), StepFor(ring, first_range));
}

RingSteps RingStepsAfter(const RingForm& ring, absl::Span<const float> mean, float first_range) {
  std::vector<double> squares(RingBlocks(mean.size()));
  double all = 0;
  for (size_t k = 0; k < squares.size(); ++k) {
    squares[k] = SumOfSquares(mean.subspan(k * kRingBlockElements, kRingBlockElements));
    all = all + squares[k];
  }
  if (!(all > 0) || !std::isfinite(all)) return FirstRingSteps(ring, mean.size(), first_range);
  const double quiet = kQuietBlock * std::sqrt(all / static_cast<double>(mean.size()));
  RingSteps steps(squares.size());
  for (size_t k = 0; k < steps.size(); ++k) {
    const size_t values = std::min(kRingBlockElements, mean.size() - k * kRingBlockElements);
    const double rms = std::sqrt(squares[k] / static_cast<double>(values));
    steps[k] = StepFor(ring, kRangeInRms * std::max(rms, quiet));
  }
  return steps;
}

absl::StatusOr<uint64_t> EncodeRing(const RingForm& ring, absl::Span<const int16_t> steps,
                                    absl::Span<const float> values, float weight,
                                    const Rounding& rounding, absl::Span<uint32_t> codes) {
  CHECK(codes.size() == values.size() && steps.size() == RingBlocks(values.size()));
  if (!(weight > 0 && weight <= 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("weights in a ring are above 0 and at most 1, not ", weight));
  }
  const double greatest = ring.greatest();
  const uint32_t bits = ring.element_mask();
  uint64_t cut = 0;
  double inverse = 1;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) return FirstNotFinite(values, i);
    if (i % kRingBlockElements == 0) inverse = PowerOfTwo(-steps[i / kRingBlockElements]);
    double code = RoundedCode(static_cast<double>(values[i]) * weight * inverse, rounding, i);
    if (std::abs(code) > greatest) {
      code = std::copysign(greatest, code);
      ++cut;
    }
    codes[i] = static_cast<uint32_t>(static_cast<int32_t>(code)) & bits;
  }
  return cut;
}

void AddRing(const RingForm& ring, absl::Span<const uint32_t> codes, absl::Span<uint32_t> sum) {
  CHECK(codes.size() == sum.size());
  const uint32_t bits = ring.element_mask();
  for (size_t i = 0; i < sum.size(); ++i) sum[i] = (sum[i] + codes[i]) & bits;
}

absl::Status DecodeRing(const RingForm& ring, absl::Span<const int16_t> steps,
                        absl::Span<const uint32_t> sum, double weight, absl::Span<float> mean) {
  CHECK(sum.size() == mean.size() && steps.size() == RingBlocks(sum.size()));
  if (!(weight > 0) || !std::isfinite(weight)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the weights of a sum are above 0 together, not ", weight));
  }
  double step = 1;
  for (size_t i = 0; i < sum.size(); ++i) {
    if (i % kRingBlockElements == 0) step = PowerOfTwo(steps[i / kRingBlockElements]);
    const double value = SignedElement(ring, sum[i]) * step / weight;
    if (std::abs(value) > std::numeric_limits<float>::max()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the mean's value ", i, " is not an fp32 number"));
    }
    mean[i] = static_cast<float>(value);
  }
  return absl::OkStatus();
}

void PackRing(const RingForm& ring, absl::Span<const uint32_t> elements,
              absl::Span<uint8_t> bytes) {
  CHECK(bytes.size() == elements.size() * ring.bytes);
  uint8_t* out = bytes.data();
  for (const uint32_t element : elements) {
    for (uint32_t i = 0; i < ring.bytes; ++i) *out++ = static_cast<uint8_t>(element >> (8 * i));
  }
}

absl::Status UnpackRing(const RingForm& ring, absl::Span<const uint8_t> bytes,
                        absl::Span<uint32_t> elements) {
  if (bytes.size() != elements.size() * ring.bytes) {
    return WrongLength(bytes.size(), elements.size() * ring.bytes, elements.size());
  }
  const uint8_t* in = bytes.data();
  for (uint32_t& element : elements) {
    element = 0;
    for (uint32_t i = 0; i < ring.bytes; ++i) element |= static_cast<uint32_t>(*in++) << (8 * i);
  }
  return absl::OkStatus();
}

}  // namespace atolld
