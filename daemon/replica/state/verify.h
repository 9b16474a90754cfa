// Checks and lists a replica's directory by reading it: these functions find out whether the
// directory is sound, what it holds, what it can give to other peers, and the state to which it
// leads.
//
// No function writes into the directory, so it may belong to a running replica. If the replica
// drops files that VerifyLog or MaterializeSnapshot was about to read, the function begins again
// with the files that then exist; it fails only if this happens during every attempt. The functions
// block and may be called from any thread.
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
  // The version of the oldest snapshot, from which the entries were replayed.
  uint64_t first_version = 0;
  uint64_t version = 0;
  Digest state_digest;
  bool sealed = false;
};

// Replays every entry from the oldest snapshot on and makes all possible checks: of the chain of
// all headers, each payload's digest, each state against the next header, every snapshot against
// the replayed state, and the seal against the last entry. Fails with DATA_LOSS if a check fails;
// the message names the entry and the file. A record that a crash cut short also counts as a fault;
// opening the replica repairs it.
absl::StatusOr<VerifyReport> VerifyLog(Files& files, const std::string& dir);

struct LogEntryInfo {
  v1::EntryHeader header;
  // The size of the payload; nullopt if the payload was dropped.
  std::optional<uint64_t> payload_bytes;
};

// Returns every header of the log, oldest first. Only the checksums of the records are checked.
absl::StatusOr<std::vector<LogEntryInfo>> ListLog(Files& files, const std::string& dir);

// The versions to which the snapshots and the log lead ("covered" versions).
struct VersionRange {
  uint64_t first = 0;
  uint64_t last = 0;
};
absl::StatusOr<VersionRange> CoveredVersions(Files& files, const std::string& dir);

// Returns `wanted`, or the newest covered version if `wanted` is nullopt. Fails with NOT_FOUND if
// `wanted` is not covered; the message names the covered versions.
absl::StatusOr<uint64_t> CoveredVersion(Files& files, const std::string& dir,
                                        std::optional<uint64_t> wanted);

// Returns what a replica at `committed` can give to other peers now: the entries whose header and
// payload it has, and a snapshot with a readable head. It has all entries from oldest_entry to
// `committed`; oldest_entry is 0 if it lacks the newest entry. The snapshot is the newest one at or
// before `committed`.
absl::StatusOr<v1::Offer> OfferOf(Files& files, const std::string& dir, uint64_t committed);

// The chain's statement about a snapshot's state.
enum class ChainWord {
  kUnsaid,     // The log does not have the header after the snapshot.
  kConfirmed,  // The header after the snapshot has the same state digest.
  kContradicted,
};

struct SnapshotFile {
  uint64_t version = 0;
  std::string path;
  uint64_t bytes = 0;
  // DATA_LOSS if the snapshot's head cannot be read; the other fields are then unset.
  absl::Status status;
  Digest state_digest{};
  ChainWord chain = ChainWord::kUnsaid;
  uint64_t leads_to = 0;  // The newest version to which the log leads from this snapshot.
};

// Returns every snapshot, oldest first. Reads only the heads, not the blocks. Fails with NOT_FOUND
// or DATA_LOSS if there is no replica.
absl::StatusOr<std::vector<SnapshotFile>> ListSnapshotFiles(Files& files, const std::string& dir);

struct SnapshotAudit {
  SnapshotFile file;
  uint64_t blocks = 0;
};

// Reads every block of one snapshot and compares its state with the chain. Fails with DATA_LOSS if
// a block is corrupt or a header contradicts the state; the message names the file, the block and
// the offset, or that header. Fails with NOT_FOUND if there is no such snapshot; the message names
// the existing snapshots.
absl::StatusOr<SnapshotAudit> VerifySnapshot(Files& files, const std::string& dir,
                                             uint64_t version);

struct MaterializedSnapshot {
  std::string path;
  uint64_t version = 0;
  // The offset of theta's first byte in the file. Its values are fp32 LE.
  uint64_t theta_offset = 0;
  uint64_t elements = 0;
  v1::Genesis genesis;
  Digest state_digest;
};

// Writes the state of `version`, or of the newest committed version, as a snapshot file to
// `out_path`. It is made from the nearest earlier snapshot and the log, with only a few blocks in
// memory at a time. Fails with NOT_FOUND if `version` is not covered; the message names the covered
// versions.
absl::StatusOr<MaterializedSnapshot> MaterializeSnapshot(Files& files, const std::string& dir,
                                                         const std::string& out_path,
                                                         std::optional<uint64_t> version);

}  // namespace atolld
