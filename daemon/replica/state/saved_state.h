// A saved state: one version of a replica in a folder of its own, which is a replica's folder too.
//
// It holds the genesis, the snapshot, the headers up to it, which say how the run came there, and
// the seal if that closes this version. So whatever reads a replica reads it: its log is verified,
// its chain from the genesis to the snapshot too, and text and exports are made of it.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "daemon/env/env.h"
#include "daemon/replica/state/verify.h"

namespace atolld {

// Bytes that SaveState writes at most at any moment, within some MiB. NOT_FOUND: as SaveState.
absl::StatusOr<uint64_t> BytesToSave(Files& files, const std::string& dir, uint64_t version);

// Writes the state of `version` to the folder `out`, which does not exist yet; the genesis comes
// last, and without it nothing takes the folder for a replica's. NOT_FOUND names the versions that
// are covered: that one is not. After an error what was written so far is left to the caller. Only
// reads `dir`, so it may run beside a live replica. Any thread, blocking.
absl::StatusOr<MaterializedSnapshot> SaveState(Files& files, const std::string& dir,
                                               const std::string& out, uint64_t version);

}  // namespace atolld
