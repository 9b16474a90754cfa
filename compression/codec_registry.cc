// Finds codecs by name: FindCodec of codec.h and ParseCodecName of wire_codec.h.
#include <array>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compression/codec.h"
#include "compression/fp32_codec.h"
#include "compression/int8_codec.h"
#include "compression/nearest_name.h"
#include "compression/wire_codec.h"

namespace atolld {
namespace {

constexpr absl::string_view kZstdSuffix = "+zstd";

// Stateless, so one instance of each serves everybody for ever. Ascending by name.
std::array<const Codec*, 2> AllCodecs() {
  static const Fp32Codec fp32;
  static const Int8Codec int8;
  return {&fp32, &int8};
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
