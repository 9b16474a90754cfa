// The part of `atoll plan` about modes: which share of a round's time each mode would spend on
// training, how many inner steps it would need to reach the wanted share, and which mode [mode]
// kind = "auto" would choose. Pure. May be called from any thread.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "membership/planning/mode_choice.h"

namespace atolld {

struct ModesAsked {
  ModeQuestion question;    // step_seconds is 0 if unknown
  std::string codec;        // the config's codec, without "+zstd"
  std::string upper_codec;  // the codec of means
  std::string slow_codec;   // the codec of updates over slow lines; if empty, the same as `codec`
  ModeShape mode;           // the config's mode; not chosen yet with kind "auto"
  double utilisation = 0.95;
};

// Returns the codecs of updates and of means together. Fails with INVALID_ARGUMENT if `updates` and
// `means` cannot be combined. If `slow` cannot be combined with them, it is not used.
absl::StatusOr<LevelCodecs> LevelsWith(const std::string& updates, const std::string& means,
                                       const std::string& slow);

// Returns null if the duration of a step is not known.
nlohmann::ordered_json ModesJson(const ModesAsked& asked);

// Returns lines, the last of which is empty. Returns no lines if the duration of a step is not
// known.
std::vector<std::string> ModesText(const ModesAsked& asked);

}  // namespace atolld
