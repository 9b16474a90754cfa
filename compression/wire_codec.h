// WireCodec: what `codec = "int8+zstd"` in a config means: a codec, and whether chunks are zstd
// frames on the wire.
//
// zstd is a matter of the wire alone: payloads, digests and the log hold the codec's bytes.
#pragma once

#include <string>
#include <vector>

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

}  // namespace atolld
