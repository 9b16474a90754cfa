// RetentionPolicy: how much of its past a replica keeps on disk, and what follows from it for a
// directory as it is.
//
// Laws: one snapshot that can be read, and the log after it, always stay. Bytes are counted for log
// and snapshots together, and leave room for the snapshot that is made next beside the one that it
// is made from. Deciding is pure; measuring reads the directory. Any thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "atoll/v1/replica.pb.h"
#include "daemon/env/env.h"

namespace atolld {

struct RetentionPolicy {
  uint32_t snapshot_every = 20;  // versions
  uint32_t keep_snapshots = 2;   // the log reaches back to the oldest kept
  uint64_t keep_bytes = 0;       // LeastKeepBytes if that is more; 0: no limit
  // Of headers whose payloads are gone. They are the chain's history, which a coordinator that lost
  // its own can adopt: a megabyte holds thousands.
  uint64_t keep_header_bytes = uint64_t{1} << 20;
};

// What log and snapshots of a directory take.
struct StoredFiles {
  std::map<uint64_t, uint64_t> snapshots;  // version: bytes
  std::map<uint64_t, uint64_t> damaged;    // snapshots that were put aside
  std::map<uint64_t, uint64_t> payloads;   // the newest may be prepared only
  uint64_t header_bytes = 0;
  uint64_t total() const;
};

// Files that are dropped meanwhile are passed over.
absl::StatusOr<StoredFiles> MeasureFiles(Files& files, const std::string& dir);

// What the files of a run take at most, judged by its newest snapshot.
struct FileSizes {
  uint64_t snapshot = 0;
  uint64_t stage = 0;   // beside a snapshot while it is made
  uint64_t header = 0;  // of one entry, in the log
  uint64_t entry = 0;   // payload and header
};

FileSizes SizesOf(const v1::SnapshotInfo& newest, uint64_t snapshot_bytes);

// The smallest limit that can work: two snapshots, the stage, and five entries: those that a
// snapshot takes in and those that are committed while it is made.
uint64_t LeastKeepBytes(const FileSizes& sizes);

// The limit that holds; 0: none.
uint64_t ByteLimit(const RetentionPolicy& policy, const FileSizes& sizes);

// Bytes of headers before the oldest snapshot that may stay.
uint64_t HeaderAllowance(const RetentionPolicy& policy, uint64_t limit);

struct RetentionPlan {
  uint64_t oldest = 0;   // the snapshot that everything before may be dropped for
  bool advance = false;  // a new snapshot is due
  // There is no room for a new snapshot until the older ones are gone.
  bool drop_first = false;
};

// `stored.snapshots` are those that can be read; there is one, and none is beyond `committed`.
RetentionPlan PlanRetention(const RetentionPolicy& policy, const StoredFiles& stored,
                            const FileSizes& sizes, uint64_t committed);

}  // namespace atolld
