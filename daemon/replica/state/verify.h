// What can be said of a replica's directory by reading it: is it sound, what does it hold, what can
// it give to others, and what state does it lead to.
//
// Nothing here writes into the directory, so it may be asked of a replica that is running. Where
// that one drops what VerifyLog or MaterializeSnapshot was about to read, the question is asked
// again from what is there then; only a replica that keeps outrunning the answer makes it fail. Any
// thread, blocking.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "atoll/v1/membership.pb.h"
#include "atoll/v1/run.pb.h"
#include "daemon/env/env.h"
#include "membership/history/digest.h"

namespace atolld {

struct VerifyReport {
  uint64_t first_version = 0;  // of the oldest snapshot, from which all was replayed
  uint64_t version = 0;
  Digest state_digest;
  bool sealed = false;
};

// Replays from the oldest snapshot through every entry and checks all that can be: the chain of all
// headers, each payload's digest, each state against the next header, every snapshot against the
// replayed state, the seal against the end. DATA_LOSS names entry and file. A record that a crash
// cut short is a fault too: opening the replica mends it.
absl::StatusOr<VerifyReport> VerifyLog(Files& files, const std::string& dir);

struct LogEntryInfo {
  v1::EntryHeader header;
  std::optional<uint64_t> payload_bytes;  // none: dropped, an old snapshot has taken its place
};

// Every header of the log, oldest first, without a check beyond the records' own.
absl::StatusOr<std::vector<LogEntryInfo>> ListLog(Files& files, const std::string& dir);

// The versions whose states snapshots and log lead to.
struct VersionRange {
  uint64_t first = 0;
  uint64_t last = 0;
};
absl::StatusOr<VersionRange> CoveredVersions(Files& files, const std::string& dir);

// `wanted`, or the newest of them where nothing is. NOT_FOUND names those that are covered:
// `wanted` is not.
absl::StatusOr<uint64_t> CoveredVersion(Files& files, const std::string& dir,
                                        std::optional<uint64_t> wanted);

// What a replica that stands at `committed` can give to others at this moment: an entry whose
// header and payload are both here, a snapshot whose description can be read. oldest_entry: all
// from it to `committed` are here; 0: the newest is not. The snapshot is the newest at or before
// `committed`.
absl::StatusOr<v1::Offer> OfferOf(Files& files, const std::string& dir, uint64_t committed);

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

struct MaterializedSnapshot {
  std::string path;
  uint64_t version = 0;
  uint64_t theta_offset = 0;  // of theta's first byte in the file; fp32 LE values follow
  uint64_t elements = 0;
  v1::Genesis genesis;
  Digest state_digest;
};

// Writes the state of `version` (none: the newest committed) as a snapshot file to `out_path`, made
// from the nearest earlier snapshot and the log, a few blocks in memory at a time. NOT_FOUND names
// the versions that are covered: that one is not.
absl::StatusOr<MaterializedSnapshot> MaterializeSnapshot(Files& files, const std::string& dir,
                                                         const std::string& out_path,
                                                         std::optional<uint64_t> version);

}  // namespace atolld
