// Replica::AdvanceSnapshots: when a new snapshot is due, and what is dropped once it stands.
#include <algorithm>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/replica/layout.h"
#include "daemon/replica/replica.h"
#include "daemon/replica/snapshot_build.h"
#include "daemon/status_macros.h"

namespace atolld {
namespace {

// Each entry of a tail holds a file open while the snapshot is made; a longer tail is taken in
// several goes.
constexpr uint64_t kMaxTailEntries = 256;

// Makes the snapshot that leads towards `version` from the newest base that is whole; returns its
// version.
absl::StatusOr<uint64_t> Advance(Files& files, const std::string& dir, uint64_t version) {
  absl::Status fault;
  for (uint64_t newest = version;; --newest) {
    const absl::StatusOr<std::unique_ptr<SnapshotReader>> base = FindSnapshot(files, dir, newest);
    if (!base.ok()) return fault.ok() ? base.status() : fault;
    newest = (*base)->info().version();
    const uint64_t next = std::min(version, newest + kMaxTailEntries);
    const absl::Status status = BuildSnapshot(files, dir, **base, next, SnapshotPath(dir, next));
    if (status.ok()) return next;
    if (fault.ok()) fault = status;
    if (!absl::IsDataLoss(status) || newest == 0) return fault;
  }
}

absl::Status DropOld(Files& files, const std::string& dir, uint32_t keep_snapshots) {
  ASSIGN_OR_RETURN(const std::vector<uint64_t> snapshots, ListSnapshots(files, dir));
  const size_t keep = std::max<size_t>(1, keep_snapshots);
  if (snapshots.size() <= keep) return absl::OkStatus();
  const size_t dropped = snapshots.size() - keep;
  for (size_t i = 0; i < dropped; ++i) {
    RETURN_IF_ERROR(files.Remove(SnapshotPath(dir, snapshots[i])));
    RETURN_IF_ERROR(files.Remove(absl::StrCat(SnapshotPath(dir, snapshots[i]), ".corrupt")));
  }
  // A snapshot that came back after a crash without the entries after it would be of no use.
  RETURN_IF_ERROR(files.SyncDirectory(SnapshotsDirectory(dir)));
  ASSIGN_OR_RETURN(const std::vector<uint64_t> payloads, ListPayloads(files, dir));
  for (const uint64_t version : payloads) {
    if (version <= snapshots[dropped]) RETURN_IF_ERROR(files.Remove(PayloadPath(dir, version)));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Replica::AdvanceSnapshots(Files& files, const std::string& dir,
                                       const RetentionPolicy& policy, uint64_t committed_version) {
  if (policy.snapshot_every == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::unique_ptr<SnapshotReader> newest,
                   FindSnapshot(files, dir, committed_version));
  uint64_t version = newest->info().version();
  while (committed_version - version >= policy.snapshot_every) {
    ASSIGN_OR_RETURN(const uint64_t next, Advance(files, dir, committed_version));
    // A base that had to be an older one may have led no further than the newest already did.
    if (next <= version) break;
    version = next;
  }
  return DropOld(files, dir, policy.keep_snapshots);
}

}  // namespace atolld
