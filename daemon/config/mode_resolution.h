// What [mode] kind = "auto" comes to: the mode, its fragments and overlap, and the codec, by the
// plan (membership/planning/mode_choice.h), when a run is made.
//
// A run's record is fixed from then on, so whatever the choice rests on has to be known before any
// peer has joined: the model's size, how long a step takes, and what the lines carry. All of it
// stands in the config. Pure; any thread.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "atoll/v1/run.pb.h"
#include "daemon/config/config_sections.h"
#include "daemon/config/mode_rules.h"

namespace atolld {

// What a config that a run is made by lacks for "auto", and what to give instead; nothing of
// another mode or for another use.
ModeFault AutoModeFault(const Config& config, ConfigUse use);

// Writes the choice over [mode] and [exchange] codec of a config with "auto", which AutoModeFault
// has passed, and says why, in a line. FAILED_PRECONDITION: no mode reaches the utilisation that is
// asked for; says which comes nearest.
absl::StatusOr<std::string> ResolveMode(Config* config);

// The record of a run by this config. With "auto" it has the mode and the codec of `made`, if the
// run is made already (null: it is not), and else those that ResolveMode finds. `because`: why, in
// a line; empty without "auto". Errors as ResolveMode's; INVALID_ARGUMENT: as AutoModeFault.
absl::StatusOr<v1::RunSpec> SpecOf(const Config& config, const v1::RunSpec* made,
                                   std::string* because);

}  // namespace atolld
