// RetentionPass: looks once at what a replica's directory holds, makes the snapshot that is due,
// and drops what the policy no longer keeps, in slices.
//
// Laws: nothing is dropped before a newer snapshot was read or written whole in the same pass, so
// that every snapshot audits the disk and one sound snapshot with the log after it always stays; a
// snapshot's removal is durable before its entries go. Only committed entries are read and live
// memory is not touched: it may run beside the replica. One thread at a time, any thread, blocking
// for a slice.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "atoll/v1/membership.pb.h"
#include "daemon/env/env.h"
#include "daemon/replica/state/retention_policy.h"
#include "daemon/replica/state/snapshot.h"
#include "daemon/replica/state/snapshot_build.h"

namespace atolld {

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
