// Decides and carries out which log entries and snapshots of a replica stay on disk.
// RetentionPolicy says how much is kept, PlanRetention derives from it what must be done in a
// directory, and RetentionPass does that in slices: it makes the snapshot that is due and drops the
// files that the policy no longer keeps.
//
// Laws: one readable snapshot, and the log after it, are always kept. Nothing is dropped before a
// newer snapshot was completely read or written in the same pass, so each new snapshot also shows
// that the disk can be read. The removal of a snapshot is durable before its entries are removed.
// The byte limit is for the log and the snapshots together, and leaves room for the next snapshot
// beside the one from which it is made. A pass reads only committed entries and does not touch the
// state in memory, so it may run beside the replica. Used by one thread at a time; each call blocks
// for a slice. PlanRetention is pure.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "atoll/v1/membership.pb.h"
#include "atoll/v1/replica.pb.h"
#include "daemon/env/env.h"
#include "daemon/replica/state/snapshot.h"
#include "daemon/replica/state/snapshot_build.h"

namespace atolld {

struct RetentionPolicy {
  uint32_t snapshot_every = 20;  // The number of versions between two snapshots.
  // The number of kept snapshots. The log reaches back to the oldest of them.
  uint32_t keep_snapshots = 2;
  // The byte limit; 0 means no limit. If it is less than LeastKeepBytes, that is used.
  uint64_t keep_bytes = 0;
  // The limit for headers without payloads. A coordinator that has lost its history can adopt the
  // history in these headers. A megabyte holds thousands of headers.
  uint64_t keep_header_bytes = uint64_t{64} << 20;
};

// The sizes of a directory's log and snapshots.
struct StoredFiles {
  std::map<uint64_t, uint64_t> snapshots;  // The size of each snapshot in bytes, by version.
  std::map<uint64_t, uint64_t> damaged;    // The sizes of snapshots that were set aside.
  std::map<uint64_t, uint64_t> payloads;  // The sizes of payloads. The newest may be prepared only.
  uint64_t header_bytes = 0;
  uint64_t total() const;
};

// Measures the files in a directory. Ignores files that are dropped meanwhile.
absl::StatusOr<StoredFiles> MeasureFiles(Files& files, const std::string& dir);

// The largest sizes of a run's files, estimated from its newest snapshot.
struct FileSizes {
  uint64_t snapshot = 0;
  uint64_t stage = 0;   // The temporary files beside a snapshot that is being made.
  uint64_t header = 0;  // The header of one entry in the log.
  uint64_t entry = 0;   // An entry's payload and header together.
};

FileSizes SizesOf(const v1::SnapshotInfo& newest, uint64_t snapshot_bytes);

// Returns the smallest usable limit: the size of two snapshots, the stage files, and five entries,
// which are those that a snapshot covers and those that are committed while it is made.
uint64_t LeastKeepBytes(const FileSizes& sizes);

// Returns the effective byte limit; 0 if there is no limit.
uint64_t ByteLimit(const RetentionPolicy& policy, const FileSizes& sizes);

// Returns how many bytes of headers before the oldest snapshot may be kept.
uint64_t HeaderAllowance(const RetentionPolicy& policy, uint64_t limit);

struct RetentionPlan {
  uint64_t oldest = 0;   // Snapshots and entries before this snapshot may be dropped.
  bool advance = false;  // True if a new snapshot is due.
  // True if there is no room for a new snapshot until the older ones are dropped.
  bool drop_first = false;
};

// Plans a pass. `stored.snapshots` must be the readable snapshots. There must be at least one, and
// no snapshot may be newer than `committed`.
RetentionPlan PlanRetention(const RetentionPolicy& policy, const StoredFiles& stored,
                            const FileSizes& sizes, uint64_t committed);

struct RetentionReport {
  // The newest snapshot that the pass has made.
  std::optional<uint64_t> made;
  // The faults found on the disk. Each is DATA_LOSS and names the file. They include faults that
  // did not end the pass, because an older snapshot could be used; such a file was set aside, or
  // removed if there is a byte limit.
  std::vector<absl::Status> faults;
  // The fault that ended the pass; kNone if it did not end with a fault.
  BuildFault fatal = BuildFault::kNone;
  uint64_t bytes = 0;  // The bytes that the log and the snapshots take now.
  uint64_t limit = 0;  // The limit of `bytes`; 0 if there is no limit.
  // The directory's offer after the pass.
  v1::Offer offer;
};

class RetentionPass {
 public:
  // `committed` is the replica's version. `state` is its state digest, which a snapshot of that
  // version must have; if it is nullopt, only the digests in the log are checked.
  RetentionPass(Files& files, std::string dir, const RetentionPolicy& policy, uint64_t committed,
                std::optional<Digest> state);
  ~RetentionPass();

  // Does a bounded piece of the work. Returns true if the pass is over and, judging by the files'
  // names and heads, the replica can be opened again. Fails with DATA_LOSS if the replica cannot be
  // opened, or if no snapshot can be made from this disk any more; in that case nothing was
  // dropped. Fails with RESOURCE_EXHAUSTED if the disk is full. The report has the details.
  absl::StatusOr<bool> Step();

  // Returns true if the limit is exceeded, so that the rest of the work should not wait.
  bool urgent() const { return report_.limit != 0 && report_.bytes > report_.limit; }
  const RetentionReport& report() const { return report_; }

 private:
  enum class Phase { kSurvey, kCheckNewest, kBuild, kFinished };

  absl::Status Survey();
  absl::Status OpenSnapshots(absl::Status* fault);
  absl::Status Decide();
  absl::Status BeginBuild();
  absl::Status Build();
  absl::Status CheckNewest();
  absl::Status PutAside(uint64_t version, const absl::Status& why);
  absl::Status DropBefore(uint64_t oldest);
  absl::Status CheckTail() const;
  absl::Status Lost(BuildFault fault, const absl::Status& why);
  absl::Status Finish();

  Files& files_;
  const std::string dir_;
  const RetentionPolicy policy_;
  const uint64_t committed_;
  const std::optional<Digest> state_;

  Phase phase_ = Phase::kSurvey;
  StoredFiles stored_;  // The stored files, with only the readable snapshots.
  FileSizes sizes_;
  RetentionPlan plan_;
  std::unique_ptr<SnapshotReader> newest_;
  uint64_t next_block_ = 0;  // The next block to check of the newest snapshot.
  // The snapshot that was completely read or written in this pass.
  std::optional<uint64_t> verified_;
  // Snapshots newer than this one must not be used as a base, because they led to a state that the
  // chain does not name.
  std::optional<uint64_t> newest_base_;
  std::unique_ptr<SnapshotBuild> build_;
  RetentionReport report_;
};

}  // namespace atolld
