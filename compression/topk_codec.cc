#include "compression/topk_codec.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "compression/codec_errors.h"
#include "compression/fp32_kernels.h"
#include "compression/sparse_block.h"

namespace atolld {
namespace {

// Magnitudes are compared by their bits, of which the first eleven make a histogram: exponent and
// three bits of mantissa.
constexpr int kHistogramShift = 20;
constexpr size_t kBins = size_t{1} << (31 - kHistogramShift);

uint32_t Magnitude(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits & 0x7fffffff;
}

// A value that competes for the last places: the larger first, of equal ones the earlier.
struct Candidate {
  uint32_t magnitude;
  uint16_t place;
  bool operator<(const Candidate& other) const {
    return magnitude != other.magnitude ? magnitude > other.magnitude : place < other.place;
  }
};

// The lowest bin of which values are among the `kept` largest.
size_t LowestBin(absl::Span<const float> values, size_t kept) {
  uint16_t histogram[kBins] = {};
  for (const float value : values) ++histogram[Magnitude(value) >> kHistogramShift];
  size_t bin = kBins - 1;
  while (bin > 0 && histogram[bin] < kept) kept -= histogram[bin--];
  return bin;
}

// The values of largest magnitude.
void Select(absl::Span<const float> values, SparseBlock* block) {
  const size_t bin = LowestBin(values, TopkKept(values.size()));
  const auto floor = std::max(static_cast<uint32_t>(bin) << kHistogramShift, 1u);  // never a zero
  Candidate candidates[kTopkBlockElements];
  size_t count = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const uint32_t magnitude = Magnitude(values[i]);
    candidates[count] = {magnitude, static_cast<uint16_t>(i)};
    count += magnitude >= floor ? 1 : 0;
  }
  const size_t kept = std::min(count, TopkKept(values.size()));
  std::nth_element(candidates, candidates + kept, candidates + count);
  std::sort(candidates, candidates + kept,
            [](const Candidate& a, const Candidate& b) { return a.place < b.place; });
  block->count = kept;
  uint32_t largest = 0;
  for (size_t i = 0; i < kept; ++i) {
    block->places[i] = candidates[i].place;
    block->values[i] = values[candidates[i].place];
    largest = std::max(largest, candidates[i].magnitude);
  }
  if (largest < kInt2MinEntryBits) block->count = 0;
}

// Every value that is not zero.
void TakeAll(absl::Span<const float> values, SparseBlock* block) {
  block->count = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    block->places[block->count] = static_cast<uint16_t>(i);
    block->values[block->count] = values[i];
    block->count += Magnitude(values[i]) != 0 ? 1 : 0;
  }
}

absl::StatusOr<size_t> EncodeSparseBlocks(absl::Span<const float> values, SparseForm form,
                                          size_t needed, absl::Span<uint8_t> out) {
  if (out.size() < needed) return OutputTooSmall(out.size(), needed);
  SparseBlock block;
  size_t used = 0;
  for (size_t i = 0; i < values.size(); i += kTopkBlockElements) {
    const absl::Span<const float> part = values.subspan(i, kTopkBlockElements);
    if (!AllFinite(part.data(), part.size())) return FirstNotFinite(values, i);
    form == SparseForm::kUpdate ? Select(part, &block) : TakeAll(part, &block);
    used += WriteSparseBlock(block, form, part.size(), out.data() + used);
  }
  return used;
}

// Calls f(block, its values' offset) for every block of a chunk.
template <class F>
absl::Status ForBlocks(absl::Span<const uint8_t> bytes, size_t elements, const F& f) {
  SparseBlock block;
  for (size_t i = 0; i < elements; i += kTopkBlockElements) {
    const absl::StatusOr<size_t> size =
        ReadSparseBlock(bytes, std::min(kTopkBlockElements, elements - i), &block);
    if (!size.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("block ", i / kTopkBlockElements, ": ", size.status().message()));
    }
    bytes.remove_prefix(*size);
    f(block, i);
  }
  if (bytes.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(bytes.size(), " bytes follow the last block"));
}

}  // namespace

size_t TopkCodec::MaxEncodedBytes(size_t elements) const {
  return elements / kTopkBlockElements * TopkMaxBlockBytes(kTopkBlockElements) +
         TopkMaxBlockBytes(elements % kTopkBlockElements);
}

absl::StatusOr<size_t> TopkCodec::Encode(absl::Span<const float> values,
                                         absl::Span<uint8_t> out) const {
  return EncodeSparseBlocks(values, SparseForm::kUpdate, MaxEncodedBytes(values.size()), out);
}

absl::StatusOr<size_t> TopkCodec::EncodeMean(absl::Span<const float> values,
                                             absl::Span<uint8_t> out) const {
  return EncodeSparseBlocks(values, SparseForm::kMean, MaxEncodedBytes(values.size()), out);
}

absl::Status TopkCodec::Check(absl::Span<const uint8_t> bytes, size_t elements) const {
  return ForBlocks(bytes, elements, [](const SparseBlock&, size_t) {});
}

absl::Status TopkCodec::Decode(absl::Span<const uint8_t> bytes, absl::Span<float> values) const {
  std::fill(values.begin(), values.end(), 0.0f);
  return ForBlocks(bytes, values.size(), [values](const SparseBlock& block, size_t offset) {
    for (size_t i = 0; i < block.count; ++i) values[offset + block.places[i]] = block.values[i];
  });
}

absl::Status TopkCodec::DecodeAccumulate(absl::Span<const uint8_t> bytes, float weight,
                                         absl::Span<float> sum) const {
  if (!AllFinite(&weight, 1)) return WeightNotFinite();
  const absl::Status checked = Check(bytes, sum.size());
  if (!checked.ok()) return checked;
  return ForBlocks(bytes, sum.size(), [weight, sum](const SparseBlock& block, size_t offset) {
    for (size_t i = 0; i < block.count; ++i) {
      float& at = sum[offset + block.places[i]];
      const float product = weight * block.values[i];
      at = at + product;
    }
  });
}

}  // namespace atolld
