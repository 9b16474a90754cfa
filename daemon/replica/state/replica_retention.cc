// What a Replica does about the size and the soundness of its directory.
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "daemon/replica/state/layout.h"
#include "daemon/replica/state/replica.h"
#include "daemon/replica/state/replica_state.h"
#include "daemon/replica/state/retention_pass.h"

namespace atolld {

absl::Status Replica::AdvanceSnapshots(Files& files, const std::string& dir,
                                       const RetentionPolicy& policy, uint64_t committed_version,
                                       std::optional<Digest> state) {
  RetentionPass pass(files, dir, policy, committed_version, state);
  while (true) {
    ASSIGN_OR_RETURN(const bool over, pass.Step());
    if (over) return absl::OkStatus();
  }
}

absl::Status Replica::CompactLog(uint64_t allowance) {
  ASSIGN_OR_RETURN(const std::vector<uint64_t> snapshots,
                   ListSnapshots(state_->files, state_->dir));
  if (snapshots.empty()) return absl::OkStatus();
  // A snapshot that came back after a crash needs the headers after it.
  RETURN_IF_ERROR(state_->files.SyncDirectory(SnapshotsDirectory(state_->dir)));
  return state_->log->DropHeadersBefore(snapshots.front() + 1, allowance);
}

absl::Status Replica::SaveState() {
  Files& files = state_->files;
  const std::string& dir = state_->dir;
  v1::SnapshotInfo info = state_->memory.Describe();
  if (info.state_digest() != ToBytes(StateDigest())) {
    return absl::DataLossError(absl::StrCat("version ", version(),
                                            ": the state in memory no longer has the digest ",
                                            ToHex(StateDigest())));
  }
  *info.mutable_genesis() = state_->genesis;
  if (state_->header.has_value()) *info.mutable_header() = *state_->header;
  RETURN_IF_ERROR(state_->memory.Write(files, SnapshotPath(dir, version()), std::move(info)));
  ASSIGN_OR_RETURN(const std::vector<uint64_t> snapshots, ListSnapshots(files, dir));
  for (const uint64_t older : snapshots) {
    if (older < version()) RETURN_IF_ERROR(files.Remove(SnapshotPath(dir, older)));
  }
  RETURN_IF_ERROR(files.SyncDirectory(SnapshotsDirectory(dir)));
  ASSIGN_OR_RETURN(const std::vector<uint64_t> payloads, ListPayloads(files, dir));
  for (const uint64_t older : payloads) {
    if (older <= version()) RETURN_IF_ERROR(files.Remove(PayloadPath(dir, older)));
  }
  return state_->log->DropHeadersBefore(version() + 1, 0);
}

}  // namespace atolld
