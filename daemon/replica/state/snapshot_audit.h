// What can be said of the snapshots in a replica's directory by reading them.
//
// Only reads; may be asked of a replica that is running. Any thread, blocking.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/env/env.h"
#include "membership/history/digest.h"

namespace atolld {

// What the chain of headers says of a snapshot's state.
enum class ChainWord {
  kUnsaid,     // the header after it is not here, yet or any more
  kConfirmed,  // that header names the same digest
  kContradicted,
};

struct SnapshotFile {
  uint64_t version = 0;
  std::string path;
  uint64_t bytes = 0;
  absl::Status status;  // DATA_LOSS: its description cannot be read; the rest is then not set
  Digest state_digest{};
  ChainWord chain = ChainWord::kUnsaid;
  uint64_t leads_to = 0;  // the newest version that the log leads to from here
};

// Every snapshot, oldest first, by their descriptions; blocks are not read. NOT_FOUND or DATA_LOSS:
// there is no replica.
absl::StatusOr<std::vector<SnapshotFile>> ListSnapshotFiles(Files& files, const std::string& dir);

struct SnapshotAudit {
  SnapshotFile file;
  uint64_t blocks = 0;
};

// Reads every block of one snapshot and asks the chain. DATA_LOSS names file, block and offset, or
// the header that says otherwise. NOT_FOUND: there is no such snapshot; names those that there are.
absl::StatusOr<SnapshotAudit> VerifySnapshot(Files& files, const std::string& dir,
                                             uint64_t version);

}  // namespace atolld
