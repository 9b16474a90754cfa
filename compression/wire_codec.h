// Codecs by their names in a config: WireCodec, what `codec = "int8+zstd"` means (a codec, and
// whether chunks are zstd frames on the wire); LevelCodecs, those of the two levels of an exchange.
//
// zstd is a matter of the wire alone: payloads, digests and the log hold the codec's bytes. Values;
// any thread.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "compression/codec.h"

namespace atolld {

struct WireCodec {
  const Codec* codec = nullptr;
  bool zstd = false;

  // "int8" or "int8+zstd": what ParseCodecName reads.
  std::string name() const;
};

// INVALID_ARGUMENT lists the known names and the nearest one.
absl::StatusOr<WireCodec> ParseCodecName(absl::string_view name);

// All that ParseCodecName takes.
std::vector<std::string> WireCodecNames();

// Of updates, which contributors encode, and of means, which relays and reducers encode.
//
// A contributor encodes once an entry, whatever the plan will be, so its chunks have one codec
// everywhere. What a region sends on (a partial mean) and what everybody takes (the entry's
// payload) has the other: `codec = "bf16"`, `upper_codec = "int4"` is bf16 inside regions and int4
// between them.
struct LevelCodecs {
  WireCodec updates;
  WireCodec means;
  const Codec* slow = nullptr;  // of updates over slow lines; null: they are as all others

  // "int8", "bf16/int4" where they differ, or "int8|int4" with the one of slow lines.
  std::string name() const;
};

// By the two settings; an empty `upper` is `codec` too. INVALID_ARGUMENT: a name is not known, or
// CheckLevels refuses the two.
absl::StatusOr<LevelCodecs> ParseLevels(absl::string_view codec, absl::string_view upper);

// INVALID_ARGUMENT says why means of such updates cannot be encoded so.
absl::Status CheckLevels(const Codec& updates, const Codec& means);

// INVALID_ARGUMENT says why `slow` is no codec of peers behind slow lines beside these.
absl::Status CheckSlowCodec(const LevelCodecs& codecs, const Codec& slow);

// These with that one; updates are of either then. INVALID_ARGUMENT as CheckSlowCodec.
absl::StatusOr<LevelCodecs> WithSlowCodec(LevelCodecs codecs, const Codec& slow);

}  // namespace atolld
