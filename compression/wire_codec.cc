#include "compression/wire_codec.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compression/base/names.h"
#include "compression/base/status_macros.h"
#include "compression/codec.h"
#include "compression/either_codec.h"
#include "compression/float_codecs.h"
#include "compression/int2_codec.h"
#include "compression/scaled_codecs.h"
#include "compression/topk_codec.h"

namespace atolld {
namespace {

constexpr absl::string_view kZstdSuffix = "+zstd";

// Returns all codecs, from the most exact to the smallest, so that the most usual comes first among
// names that are equally near to a misspelt one. Codecs are stateless, so there is one instance of
// each, which lives forever.
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

std::string LevelCodecs::name() const {
  const std::string lower = updates.name();
  const std::string upper = means.name();
  return lower == upper ? lower : absl::StrCat(lower, "/", upper);
}

absl::StatusOr<LevelCodecs> ParseLevels(absl::string_view codec, absl::string_view upper) {
  ASSIGN_OR_RETURN(WireCodec updates, ParseCodecName(codec));
  ASSIGN_OR_RETURN(WireCodec means, upper.empty() ? updates : ParseCodecName(upper));
  RETURN_IF_ERROR(CheckLevels(*updates.codec, *means.codec));
  return LevelCodecs{updates, means};
}

absl::Status CheckLevels(const Codec& updates, const Codec& means) {
  const auto refuse = [&](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", means.name(), "' does not encode means of '", updates.name(), "' updates: ", why));
  };
  if (updates.name() == means.name()) return absl::OkStatus();
  if (means.name() == "topk") {
    return refuse("it keeps every value of a mean that is not zero, which here is nearly all");
  }
  if (updates.name() == "topk" && means.name() == "int2") {
    return refuse("it has no code that is surely zero, as most values of such a mean are");
  }
  return absl::OkStatus();
}

absl::Status CheckSlowCodec(const LevelCodecs& codecs, const Codec& slow) {
  if (slow.name() == codecs.updates.codec->name()) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", slow.name(), "' is what all others use too"));
  }
  // They stand in the order of their size.
  const std::vector<std::string> names = CodecNames();
  const auto place = [&](const Codec& codec) {
    return std::find(names.begin(), names.end(), codec.name());
  };
  if (place(slow) < place(*codecs.updates.codec)) {
    return absl::InvalidArgumentError(absl::StrCat("'", slow.name(), "' is no smaller than '",
                                                   codecs.updates.codec->name(), "'"));
  }
  return CheckLevels(slow, *codecs.means.codec);
}

absl::StatusOr<LevelCodecs> WithSlowCodec(LevelCodecs codecs, const Codec& slow) {
  RETURN_IF_ERROR(CheckSlowCodec(codecs, slow));
  codecs.updates.codec = &FindEitherCodec(*codecs.updates.codec, slow, false);
  codecs.slow = &slow;
  return codecs;
}

}  // namespace atolld
