// LevelCodecs: the codec of each level of an exchange: of updates, which contributors encode, and
// of means, which relays and reducers encode.
//
// A contributor encodes once an entry, whatever the plan will be, so its chunks have one codec
// everywhere. What a region sends on (a partial mean) and what everybody takes (the entry's
// payload) has the other: `codec = "bf16"`, `upper_codec = "int4"` is bf16 inside regions and int4
// between them. Values; any thread.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "compression/wire_codec.h"

namespace atolld {

struct LevelCodecs {
  WireCodec updates;
  WireCodec means;

  // "int8", or "bf16/int4" where they differ.
  std::string name() const;
};

// By the two settings; an empty `upper` is `codec` too. INVALID_ARGUMENT: a name is not known, or
// CheckLevels refuses the two.
absl::StatusOr<LevelCodecs> ParseLevels(absl::string_view codec, absl::string_view upper);

// INVALID_ARGUMENT says why means of such updates cannot be encoded so.
absl::Status CheckLevels(const Codec& updates, const Codec& means);

}  // namespace atolld
