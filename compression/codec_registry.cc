// Finds codecs by name: FindCodec of codec.h and ParseCodecName of wire_codec.h.
#include <array>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compression/base/names.h"
#include "compression/codec.h"
#include "compression/fp32_codec.h"
#include "compression/half_codecs.h"
#include "compression/int2_codec.h"
#include "compression/int4_codec.h"
#include "compression/int8_codec.h"
#include "compression/topk_codec.h"
#include "compression/wire_codec.h"

namespace atolld {
namespace {

constexpr absl::string_view kZstdSuffix = "+zstd";

// Stateless, so one instance of each serves everybody for ever. From the most exact to the
// smallest; so of the names that are as near to a misspelt one the most usual comes first.
std::array<const Codec*, 7> AllCodecs() {
  static const Bf16Codec bf16;
  static const Fp16Codec fp16;
  static const Fp32Codec fp32;
  static const Int2Codec int2;
  static const Int4Codec int4;
  static const Int8Codec int8;
  static const TopkCodec topk;
  return {&fp32, &fp16, &bf16, &int8, &int4, &int2, &topk};
}

}  // namespace

std::vector<std::string> CodecNames() {
  std::vector<std::string> names;
  for (const Codec* codec : AllCodecs()) names.emplace_back(codec->name());
  return names;
}

absl::StatusOr<const Codec*> FindCodec(absl::string_view name) {
  for (const Codec* codec : AllCodecs()) {
    if (codec->name() == name) return codec;
  }
  return absl::InvalidArgumentError(UnknownNameMessage("codec", name, CodecNames()));
}

std::string WireCodec::name() const {
  return absl::StrCat(codec->name(), zstd ? kZstdSuffix : absl::string_view());
}

std::vector<std::string> WireCodecNames() {
  std::vector<std::string> names;
  for (const Codec* codec : AllCodecs()) {
    names.push_back(WireCodec{codec, false}.name());
    names.push_back(WireCodec{codec, true}.name());
  }
  return names;
}

absl::StatusOr<WireCodec> ParseCodecName(absl::string_view name) {
  for (const Codec* codec : AllCodecs()) {
    for (const bool zstd : {false, true}) {
      const WireCodec candidate{codec, zstd};
      if (candidate.name() == name) return candidate;
    }
  }
  return absl::InvalidArgumentError(UnknownNameMessage("codec", name, WireCodecNames()));
}

}  // namespace atolld
