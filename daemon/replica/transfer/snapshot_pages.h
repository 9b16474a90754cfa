// A snapshot's description as it travels: its leaves, one digest for each MiB of the state, in
// pages that fit a message.
//
// The first message has everything but the leaves; the pages follow in the order of the blocks. No
// page can be checked by itself, for the digest of the state is over all leaves: so all come from
// one donor, as many as the run's manifest says and no more, and then they are held against it.
// Any thread, one at a time.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "atoll/v1/replica.pb.h"

namespace atolld {

// 512 KiB of leaves: 16 GiB of state.
inline constexpr uint64_t kSnapshotLeavesAPage = 16384;

// The description without its leaves.
v1::SnapshotInfo WithoutLeaves(const v1::SnapshotInfo& info);

// The page that begins with the leaf of block `first`, of `most` leaves at most.
v1::SnapshotLeaves LeavesFrom(const v1::SnapshotInfo& info, uint64_t first, uint64_t most);

// Puts the pages together.
class SnapshotPages {
 public:
  // `info` has passed CheckSnapshotShape. INVALID_ARGUMENT: it has leaves already.
  absl::Status Begin(v1::SnapshotInfo info);
  // INVALID_ARGUMENT: not the next page, none, or more leaves than there are blocks; nothing of it
  // is kept.
  absl::Status Take(const v1::SnapshotLeaves& page);
  bool complete() const { return taken_ == blocks_a_buffer_ * buffers_; }
  // The whole description once it is complete, to be checked (CheckSnapshotInfo).
  const v1::SnapshotInfo& info() const { return info_; }

 private:
  v1::SnapshotInfo info_;
  uint64_t blocks_a_buffer_ = 0;
  uint64_t buffers_ = 0;
  uint64_t taken_ = 0;
};

}  // namespace atolld
