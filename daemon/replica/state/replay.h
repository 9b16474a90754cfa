// LogReplay: replays a log on disk entry by entry from one of the replica's snapshots, and makes
// all possible checks.
//
// It only reads, so it may run beside a live replica. The replica may then drop files that
// LogReplay needs; this gives DATA_LOSS, and the caller should begin again from a newer snapshot.
// LogReplay holds a whole state in memory. Its calls block. Used by one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "atoll/v1/run.pb.h"
#include "daemon/env/env.h"
#include "daemon/replica/state/snapshot.h"
#include "daemon/replica/state/state_memory.h"
#include "daemon/replica/state/update_log.h"
#include "membership/history/digest.h"
#include "membership/history/fragment.h"

namespace atolld {

// Reads the genesis of the replica under `dir`. Fails with DATA_LOSS if it is not sound.
absl::StatusOr<v1::Genesis> ReadGenesis(Files& files, const std::string& dir);

// Returns the error "entry 12: PATH: what" for a fault of the files on disk. If `what` already
// begins with "entry 12: ", this prefix is not repeated.
absl::Status EntryFault(uint64_t version, absl::string_view path, absl::string_view what);

struct ReplayedEntry {
  v1::EntryHeader header;
  uint64_t payload_bytes = 0;
  Digest state_digest;  // The digest of the state after the entry.
  // The state digest in the next header; nullopt if there is no such header.
  std::optional<Digest> expected;
};

class LogReplay {
 public:
  // Loads the state of the snapshot `base` and checks every block. Fails with DATA_LOSS if the
  // snapshot belongs to another run or is broken, or if the log does not continue from it; the
  // message names the file.
  static absl::StatusOr<std::unique_ptr<LogReplay>> Open(Files& files, const std::string& dir,
                                                         std::unique_ptr<SnapshotReader> base);

  const v1::Genesis& genesis() const { return genesis_; }
  const LogReader& log() const { return *log_; }
  uint64_t version() const { return memory_.version(); }
  uint64_t last_version() const { return last_; }  // The last version of the log.
  const Digest& state_digest() const { return state_digest_; }
  const Digest& header_digest() const { return header_digest_; }

  // Steps by entry version() + 1, which must be in the log. Checks the entry's place in the chain,
  // its payload, and that its header names the replayed state. Fails with DATA_LOSS if a check
  // fails; the message names the entry and the file.
  absl::StatusOr<ReplayedEntry> Next();

 private:
  LogReplay(Files& files, std::string dir, v1::Genesis genesis, StateMemory::Buffers buffers);
  absl::Status TakeOver(const SnapshotReader& base);

  Files& files_;
  const std::string dir_;
  const v1::Genesis genesis_;
  const Fragments fragments_;
  std::vector<float> theta_;
  StateMemory memory_;
  Digest state_digest_;
  Digest header_digest_;
  std::optional<LogReader> log_;
  uint64_t last_ = 0;
};

}  // namespace atolld
