// Finds codecs by their names in a config. A WireCodec is the meaning of a setting such as `codec =
// "int8+zstd"`: a codec, and whether chunks are zstd frames on the wire. LevelCodecs has the codecs
// of the two levels of an exchange.
//
// zstd is used only on the wire; payloads, digests and the log have the codec's own bytes. Pure.
// May be called from any thread.
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

  // Returns the name that ParseCodecName reads: "int8" or "int8+zstd".
  std::string name() const;
};

// Fails with INVALID_ARGUMENT if the name is not known; the message lists the known names and the
// nearest one.
absl::StatusOr<WireCodec> ParseCodecName(absl::string_view name);

// Returns all names that ParseCodecName accepts.
std::vector<std::string> WireCodecNames();

// The codec of updates, which contributors encode, and the codec of means, which relays and
// reducers encode.
//
// A contributor encodes its update once for each entry, before it knows the plan, so all its chunks
// have the same codec. The partial means of regions, and the entry's payload, which all peers
// receive, have the codec of means. With `codec = "bf16"` and `upper_codec = "int4"`, for example,
// regions use bf16 inside and int4 between each other.
struct LevelCodecs {
  WireCodec updates;
  WireCodec means;
  // The codec of updates over slow lines; null if it is that of `updates`.
  const Codec* slow = nullptr;

  // Returns for example "int8", "bf16/int4" if the two levels differ, or "int8|int4" if there is a
  // codec for slow lines.
  std::string name() const;
};

// Parses the two settings; an empty `upper` means the same as `codec`. Fails with INVALID_ARGUMENT
// if a name is not known or CheckLevels refuses them.
absl::StatusOr<LevelCodecs> ParseLevels(absl::string_view codec, absl::string_view upper);

// Fails with INVALID_ARGUMENT if means of updates in the codec `updates` cannot be encoded in
// `means`; the message says why.
absl::Status CheckLevels(const Codec& updates, const Codec& means);

// Fails with INVALID_ARGUMENT if peers with slow lines cannot use `slow` while others use `codecs`;
// the message says why.
absl::Status CheckSlowCodec(const LevelCodecs& codecs, const Codec& slow);

// Returns `codecs` with `slow` added, so that an update may be in either codec. Fails like
// CheckSlowCodec.
absl::StatusOr<LevelCodecs> WithSlowCodec(LevelCodecs codecs, const Codec& slow);

}  // namespace atolld
