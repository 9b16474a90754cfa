// Makes a backup of a coordinator: a copy of the contents of its folder that cannot be recreated.
//
// Law: the backup appears under its name only when it is complete and durable. It is a copy of the
// state at one moment, and may be made while the coordinator runs.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "daemon/env/env.h"

namespace atolld {

// Copies the authority, the credentials and the store of the coordinator's folder `dir` to the new
// folder `to`, which can replace `dir`. The copies can be read only by their owner, because anyone
// who can read them controls the run. `with_store` is false if the store is not in `dir`. Fails
// with ALREADY_EXISTS if `to` exists or an interrupted backup to `to` has left files beside it, and
// with FAILED_PRECONDITION if the run has moved to another store. Blocks.
absl::Status BackUpCoordinator(Files& files, const std::string& dir, const std::string& to,
                               bool with_store);

}  // namespace atolld
