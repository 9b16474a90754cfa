// `atolld peer`: the process that takes part in a run, with its worker, its owner's limits and, if
// configured, its metrics. Blocks.
#pragma once

#include "absl/status/status.h"
#include "daemon/config/config.h"
#include "daemon/program/process_folder.h"

namespace atolld {

// Runs the peer until the run is sealed, or until the peer has drained after a signal. Returns the
// error if the peer could not start or the run ended with an error.
absl::Status RunPeer(const Config& config, const ProcessFolder& folder);

}  // namespace atolld
