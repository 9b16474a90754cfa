// A backup of a coordinator: what its folder holds that nobody could make again.
//
// Law: the backup appears whole and durable under its name, or not at all. It is a copy of one
// instant, and may be made while the coordinator works.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "daemon/env/env.h"

namespace atolld {

// Copies the authority, the credentials and the store of the coordinator's folder `dir` to the new
// folder `to`, which can be put in its place. Files are the owner's alone: whoever reads them owns
// the run. `with_store`: false where the store is elsewhere. ALREADY_EXISTS: `to`, or what an
// interrupted backup has left beside it, is there. FAILED_PRECONDITION: the run has moved to
// another store. Blocks.
absl::Status BackUpCoordinator(Files& files, const std::string& dir, const std::string& to,
                               bool with_store);

}  // namespace atolld
