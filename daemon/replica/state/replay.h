// LogReplay: a log on disk, replayed entry by entry from one of its snapshots, with everything
// checked that can be.
//
// Only reads, so it may run beside a live replica: what it needs may then be dropped under it
// (DATA_LOSS; begin again from a newer snapshot). It holds a whole state in memory. One thread at a
// time, blocking.
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

// The genesis of the replica under `dir`. DATA_LOSS: it is not sound.
absl::StatusOr<v1::Genesis> ReadGenesis(Files& files, const std::string& dir);

// "entry 12: PATH: what": a fault of what lies on disk. A `what` that begins with the same "entry
// 12: " does not say it twice.
absl::Status EntryFault(uint64_t version, absl::string_view path, absl::string_view what);

struct ReplayedEntry {
  v1::EntryHeader header;
  uint64_t payload_bytes = 0;
  Digest state_digest;             // after it
  std::optional<Digest> expected;  // what the next header says of it, where that is here
};

class LogReplay {
 public:
  // Takes the state of `base` over, every block checked. DATA_LOSS names the file: the base is of
  // another run or broken, or the log does not lead on from it.
  static absl::StatusOr<std::unique_ptr<LogReplay>> Open(Files& files, const std::string& dir,
                                                         std::unique_ptr<SnapshotReader> base);

  const v1::Genesis& genesis() const { return genesis_; }
  const LogReader& log() const { return *log_; }
  uint64_t version() const { return memory_.version(); }
  uint64_t last_version() const { return last_; }  // of the log
  const Digest& state_digest() const { return state_digest_; }
  const Digest& header_digest() const { return header_digest_; }

  // Steps by entry version() + 1, which must be in the log: its chain, its payload, and that it
  // builds on the state which was replayed. DATA_LOSS names entry and file.
  absl::StatusOr<ReplayedEntry> Next();

 private:
  LogReplay(Files& files, std::string dir, v1::Genesis genesis);
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
