// What `atoll plan` says of modes: how much of a round each would train, with how many inner steps
// it would train enough, and which one [mode] kind = "auto" would take. Pure; any thread.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "membership/planning/mode_choice.h"

namespace atolld {

struct ModesAsked {
  ModeQuestion question;    // step_seconds 0: not known
  std::string codec;        // the config's, without zstd
  std::string upper_codec;  // likewise, of means
  std::string slow_codec;   // likewise, of updates over slow lines; empty: as the others
  ModeShape mode;           // the config's; kind "auto": it has none yet
  double utilisation = 0.95;
};

// INVALID_ARGUMENT: they do not go together. Where `slow` does not, they are without it.
absl::StatusOr<LevelCodecs> LevelsWith(const std::string& updates, const std::string& means,
                                       const std::string& slow);

// null where it is not known how long a step takes.
nlohmann::ordered_json ModesJson(const ModesAsked& asked);

// Lines with an empty one behind them; none where it is not known how long a step takes.
std::vector<std::string> ModesText(const ModesAsked& asked);

}  // namespace atolld
