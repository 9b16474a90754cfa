#include "compression/level_codecs.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace atolld {

std::string LevelCodecs::name() const {
  const std::string lower = updates.name();
  const std::string upper = means.name();
  return lower == upper ? lower : absl::StrCat(lower, "/", upper);
}

absl::StatusOr<LevelCodecs> ParseLevels(absl::string_view codec, absl::string_view upper) {
  absl::StatusOr<WireCodec> updates = ParseCodecName(codec);
  if (!updates.ok()) return updates.status();
  absl::StatusOr<WireCodec> means = upper.empty() ? updates : ParseCodecName(upper);
  if (!means.ok()) return means.status();
  const absl::Status fits = CheckLevels(*updates->codec, *means->codec);
  if (!fits.ok()) return fits;
  return LevelCodecs{*updates, *means};
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

}  // namespace atolld
