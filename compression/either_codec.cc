#include "compression/either_codec.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compression/base/check.h"
#include "compression/base/status_macros.h"

namespace atolld {
namespace {

constexpr uint8_t kUsual = 0;
constexpr uint8_t kSlow = 1;

}  // namespace

EitherCodec::EitherCodec(const Codec& usual, const Codec& slow, bool encodes_slow)
    : usual_(usual),
      slow_(slow),
      chosen_(encodes_slow ? slow : usual),
      name_(absl::StrCat(usual.name(), "|", slow.name())) {}

size_t EitherCodec::MaxEncodedBytes(size_t elements) const {
  return std::max(usual_.MaxEncodedBytes(elements), slow_.MaxEncodedBytes(elements)) + 1;
}

size_t EitherCodec::Mark(size_t size, absl::Span<uint8_t> out) const {
  out[size] = &chosen_ == &slow_ ? kSlow : kUsual;
  return size + 1;
}

absl::StatusOr<size_t> EitherCodec::Encode(absl::Span<const float> values,
                                           absl::Span<uint8_t> out) const {
  const size_t needed = MaxEncodedBytes(values.size());
  if (out.size() < needed) return OutputTooSmall(out.size(), needed);
  ASSIGN_OR_RETURN(const size_t size, chosen_.Encode(values, out));
  return Mark(size, out);
}

absl::StatusOr<size_t> EitherCodec::EncodeStochastic(absl::Span<const float> values, uint64_t key,
                                                     absl::Span<uint8_t> out) const {
  const size_t needed = MaxEncodedBytes(values.size());
  if (out.size() < needed) return OutputTooSmall(out.size(), needed);
  ASSIGN_OR_RETURN(const size_t size, chosen_.EncodeStochastic(values, key, out));
  return Mark(size, out);
}

absl::StatusOr<EitherCodec::Inner> EitherCodec::InnerOf(absl::Span<const uint8_t> bytes) const {
  if (bytes.empty()) return absl::InvalidArgumentError("0 bytes do not say their codec");
  const uint8_t mark = bytes.back();
  if (mark != kUsual && mark != kSlow) {
    return absl::InvalidArgumentError(absl::StrCat("its last byte is ", mark, ", not 0 for ",
                                                   usual_.name(), " or 1 for ", slow_.name()));
  }
  return Inner{mark == kSlow ? &slow_ : &usual_, bytes.first(bytes.size() - 1)};
}

absl::Status EitherCodec::Check(absl::Span<const uint8_t> bytes, size_t elements) const {
  ASSIGN_OR_RETURN(const Inner inner, InnerOf(bytes));
  return inner.codec->Check(inner.bytes, elements);
}

absl::Status EitherCodec::Decode(absl::Span<const uint8_t> bytes, absl::Span<float> values) const {
  ASSIGN_OR_RETURN(const Inner inner, InnerOf(bytes));
  return inner.codec->Decode(inner.bytes, values);
}

absl::Status EitherCodec::DecodeToMemory(absl::Span<const uint8_t> bytes,
                                         absl::Span<float> values) const {
  ASSIGN_OR_RETURN(const Inner inner, InnerOf(bytes));
  return inner.codec->DecodeToMemory(inner.bytes, values);
}

absl::Status EitherCodec::DecodeAccumulate(absl::Span<const uint8_t> bytes, float weight,
                                           absl::Span<float> sum) const {
  ASSIGN_OR_RETURN(const Inner inner, InnerOf(bytes));
  return inner.codec->DecodeAccumulate(inner.bytes, weight, sum);
}

// Sums in one pass if all chunks are of one codec; the bits are the same either way.
absl::Status EitherCodec::DecodeSum(absl::Span<const WeightedChunk> chunks, float factor,
                                    absl::Span<float> sum) const {
  std::vector<WeightedChunk> inner_chunks;
  const Codec* codec = nullptr;
  for (const WeightedChunk& chunk : chunks) {
    ASSIGN_OR_RETURN(const Inner inner, InnerOf(chunk.bytes));
    if (codec != nullptr && inner.codec != codec) return Codec::DecodeSum(chunks, factor, sum);
    codec = inner.codec;
    inner_chunks.push_back({inner.bytes, chunk.weight});
  }
  if (codec == nullptr) return Codec::DecodeSum(chunks, factor, sum);
  return codec->DecodeSum(inner_chunks, factor, sum);
}

const Codec& FindEitherCodec(const Codec& usual, const Codec& slow, bool encodes_slow) {
  using Key = std::tuple<std::string, std::string, bool>;
  static const auto* const all = [] {
    auto* const made = new std::map<Key, std::unique_ptr<const EitherCodec>>();
    for (const std::string& one : CodecNames()) {
      for (const std::string& other : CodecNames()) {
        for (const bool slowly : {false, true}) {
          (*made)[{one, other, slowly}] =
              std::make_unique<const EitherCodec>(**FindCodec(one), **FindCodec(other), slowly);
        }
      }
    }
    return made;
  }();
  const auto found = all->find({std::string(usual.name()), std::string(slow.name()), encodes_slow});
  CHECK(found != all->end());
  return *found->second;
}

}  // namespace atolld
