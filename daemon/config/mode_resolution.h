// Resolves [mode] kind = "auto" when a run is made: chooses the mode, its fragments and overlap,
// and the codec, with the prediction of membership/planning/mode_choice.h.
//
// A run's record never changes once it is made, so the choice is made before any peer has joined.
// Therefore the config must give what the choice depends on: the model's size, the duration of a
// step, and the rate of the lines. Pure. May be called from any thread.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "atoll/v1/run.pb.h"
#include "daemon/config/config_rules.h"
#include "daemon/config/config_sections.h"

namespace atolld {

// Returns the first key that "auto" needs and the config does not give, and what to set. No fault
// is returned for another mode, or for a use that makes no run.
ConfigFault AutoModeFault(const Config& config, ConfigUse use);

// Writes the choice into [mode] and [exchange] codec of a config with "auto" in which AutoModeFault
// has found no fault. Returns the reason for the choice, in one line. Fails with
// FAILED_PRECONDITION if no mode reaches the wanted utilisation; the message names the mode that
// comes nearest.
absl::StatusOr<std::string> ResolveMode(Config* config);

// Returns the record of a run with this config. With "auto", the mode and the codec come from
// `made`, the record of the existing run, or from ResolveMode if `made` is null. Sets `because` to
// the reason for the choice, in one line, or to an empty text without "auto". Fails with the errors
// of ResolveMode, and with INVALID_ARGUMENT if AutoModeFault finds a fault.
absl::StatusOr<v1::RunSpec> SpecOf(const Config& config, const v1::RunSpec* made,
                                   std::string* because);

}  // namespace atolld
