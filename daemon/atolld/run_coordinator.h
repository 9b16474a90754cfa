// `atolld coordinator`: the process that leads a run, with its dashboard and the aggregator process
// that it may start. Other functions verify and back up its store. All calls block.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "daemon/config/config.h"
#include "daemon/program/process_folder.h"

namespace atolld {

// Runs the coordinator until a signal ends it, or until the run is sealed if the config asks for
// that. Returns the error if it could not start.
absl::Status RunCoordinator(const Config& config, const ProcessFolder& folder);

// Checks every header of this config's store, including those that a start skips because a
// checkpoint covers them. Changes nothing, and prints what it has found on standard output. Fails
// with DATA_LOSS if the chain is broken.
absl::Status VerifyStore(const Config& config);

// Copies the keys of this config's coordinator, and its store if that is in the coordinator's
// folder, to the new folder `to`, and checks the copy.
absl::Status BackUp(const Config& config, std::string to);

}  // namespace atolld
