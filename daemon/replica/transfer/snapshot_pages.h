// A snapshot's description (SnapshotInfo) in the form in which it is sent: its leaves, one digest
// for each MiB of the state, are in pages that fit into a message.
//
// The first message has everything except the leaves; the pages follow in the order of the blocks.
// A page cannot be checked by itself, since the digest of the state is over all leaves. So all
// pages come from one donor and are then checked together against the digest. Their number is
// limited by the size of the state in the run's manifest. Used by one thread at a time.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "atoll/v1/replica.pb.h"

namespace atolld {

// The most leaves in a page: 512 KiB of leaves, which describe 16 GiB of state.
inline constexpr uint64_t kSnapshotLeavesAPage = 16384;

// Returns the description without its leaves.
v1::SnapshotInfo WithoutLeaves(const v1::SnapshotInfo& info);

// Returns the page that begins with the leaf of block `first` and has at most `most` leaves.
v1::SnapshotLeaves LeavesFrom(const v1::SnapshotInfo& info, uint64_t first, uint64_t most);

// Assembles a description from its pages.
class SnapshotPages {
 public:
  // `info` must have passed CheckSnapshotShape. Fails with INVALID_ARGUMENT if it already has
  // leaves.
  absl::Status Begin(v1::SnapshotInfo info);
  // Adds a page. Fails with INVALID_ARGUMENT, and ignores the page, if it is not the next page, is
  // empty, or has more leaves than there are blocks.
  absl::Status Take(const v1::SnapshotLeaves& page);
  bool complete() const { return taken_ == blocks_a_buffer_ * buffers_; }
  // The whole description once it is complete; it must still be checked (CheckSnapshotInfo).
  const v1::SnapshotInfo& info() const { return info_; }

 private:
  v1::SnapshotInfo info_;
  uint64_t blocks_a_buffer_ = 0;
  uint64_t buffers_ = 0;
  uint64_t taken_ = 0;
};

}  // namespace atolld
