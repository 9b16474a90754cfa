// A saved state: one version of a replica in a folder of its own, which is itself a replica's
// folder.
//
// It holds the genesis, the snapshot, the headers that led to the snapshot, and the seal if the run
// was sealed at this version. So all code that reads a replica can read a saved state: its log and
// its chain from the genesis to the snapshot can be verified, and text and exports can be made from
// it.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "daemon/env/env.h"
#include "daemon/replica/state/verify.h"

namespace atolld {

// Returns the most bytes that SaveState needs on disk at any moment, to within a few MiB. Fails
// with NOT_FOUND in the same cases as SaveState.
absl::StatusOr<uint64_t> BytesToSave(Files& files, const std::string& dir, uint64_t version);

// Writes the state of `version` to the folder `out`, which must not exist yet. The genesis is
// written last, because a folder without a genesis does not count as a replica's. Fails with
// NOT_FOUND if the replica's files do not lead to `version`; the message names the versions to
// which they lead. After an error the caller must remove what was written. The function only reads
// `dir`, so it may run beside a live replica. It blocks and may be called from any thread.
absl::StatusOr<MaterializedSnapshot> SaveState(Files& files, const std::string& dir,
                                               const std::string& out, uint64_t version);

}  // namespace atolld
