// `atolld coordinator`: the process that leads a run, with its dashboard and the aggregator beside
// it; and what can be done to its store without it. Blocking.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "daemon/cli/process_folder.h"
#include "daemon/config/config.h"

namespace atolld {

// Until a signal ends it, or the run is sealed and its config says so. Errors: what kept it from
// its start.
absl::Status RunCoordinator(const Config& config, const ProcessFolder& folder);

// Every header of this config's store, which a start leaves out as far as a checkpoint covers them.
// Only reads, and says on standard output what there is. DATA_LOSS: the chain is broken.
absl::Status VerifyStore(const Config& config);

// What the coordinator of this config cannot make again, to a new folder, which is then checked:
// its keys, and the store if it lies in the folder.
absl::Status BackUp(const Config& config, std::string to);

}  // namespace atolld
