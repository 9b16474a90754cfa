// How much of its past a replica keeps on disk (RetentionPolicy), what follows from it for a
// directory as it is (PlanRetention), and one look at that directory which makes the snapshot that
// is due and drops what the policy no longer keeps, in slices (RetentionPass).
//
// Laws: one snapshot that can be read, and the log after it, always stay. Nothing is dropped before
// a newer snapshot was read or written whole in the same pass, so that every snapshot audits the
// disk; a snapshot's removal is durable before its entries go. Bytes are counted for log and
// snapshots together, and leave room for the snapshot that is made next beside the one that it is
// made from. A pass reads only committed entries and does not touch live memory: it may run beside
// the replica; one thread at a time, any thread, blocking for a slice. Planning is pure.
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
  uint32_t snapshot_every = 20;  // versions
  uint32_t keep_snapshots = 2;   // the log reaches back to the oldest kept
  uint64_t keep_bytes = 0;       // LeastKeepBytes if that is more; 0: no limit
  // Of headers whose payloads are gone. They are the chain's history, which a coordinator that lost
  // its own can adopt: a megabyte holds thousands.
  uint64_t keep_header_bytes = uint64_t{64} << 20;
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

struct RetentionReport {
  // Newest snapshot that the pass has made.
  std::optional<uint64_t> made;
  // What on the disk was found to be wrong, DATA_LOSS each, names the file. A fault that an older
  // snapshot made good is told too; its file was put aside, or removed where bytes are limited.
  std::vector<absl::Status> faults;
  // Of these the one that ended the pass, if it did.
  BuildFault fatal = BuildFault::kNone;
  uint64_t bytes = 0;  // that log and snapshots take now
  uint64_t limit = 0;  // of them; 0: none
  // What the directory offers now.
  v1::Offer offer;
};

class RetentionPass {
 public:
  // The replica stands at `committed`. `state`: its digest there, which a snapshot of that version
  // must have; none: only what the log says is checked.
  RetentionPass(Files& files, std::string dir, const RetentionPolicy& policy, uint64_t committed,
                std::optional<Digest> state);
  ~RetentionPass();

  // Does a bounded piece of the work. True: the pass is over, and as far as names and headers tell
  // the replica can be opened again. Errors: DATA_LOSS: it cannot, or no snapshot can be made from
  // this disk any more, nothing was dropped; RESOURCE_EXHAUSTED: the disk is full; the report tells
  // the rest.
  absl::StatusOr<bool> Step();

  // Whether the limit would be passed if the rest of the work waited.
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
  StoredFiles stored_;  // with the readable snapshots alone
  FileSizes sizes_;
  RetentionPlan plan_;
  std::unique_ptr<SnapshotReader> newest_;
  uint64_t next_block_ = 0;           // of the newest, while it is checked
  std::optional<uint64_t> verified_;  // the snapshot that was read or written whole
  // Bases after this one led to a state that the chain does not name.
  std::optional<uint64_t> newest_base_;
  std::unique_ptr<SnapshotBuild> build_;
  RetentionReport report_;
};

}  // namespace atolld
