// `atolld peer`: the process that takes part in a run, with its worker, the limits of its machine's
// owner and, where it is wanted, its metrics. Blocking.
#pragma once

#include "absl/status/status.h"
#include "daemon/cli/process_folder.h"
#include "daemon/config/config.h"

namespace atolld {

// Until the run is sealed, or a signal has drained the peer. Errors: what kept it from its start,
// or what became of the run.
absl::Status RunPeer(const Config& config, const ProcessFolder& folder);

}  // namespace atolld
