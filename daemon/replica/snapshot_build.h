// Making a snapshot from an earlier one and the log, block by block between files.
//
// A few blocks are in memory at a time, whatever the size of the state; only committed entries are
// read, so it may run beside the replica that goes on committing. Any thread, blocking.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "daemon/env.h"
#include "daemon/replica/snapshot.h"

namespace atolld {

// The newest snapshot under `dir` at or before `version` whose description can be read. NOT_FOUND:
// there is none. DATA_LOSS: none can be read; names the newest one's fault.
absl::StatusOr<std::unique_ptr<SnapshotReader>> FindSnapshot(Files& files, const std::string& dir,
                                                             uint64_t version);

// Writes the snapshot of `version` to `path`. Every entry after the base is checked: chain, payload
// digest, decoding; the new state's digest must be the one that the header of version+1 carries, if
// that is there. DATA_LOSS names entry or block; nothing is then left at `path`.
absl::Status BuildSnapshot(Files& files, const std::string& dir, const SnapshotReader& base,
                           uint64_t version, const std::string& path);

}  // namespace atolld
