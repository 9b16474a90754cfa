#include "daemon/replica/transfer/snapshot_pages.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/replica/state/snapshot.h"

namespace atolld {

v1::SnapshotInfo WithoutLeaves(const v1::SnapshotInfo& info) {
  v1::SnapshotInfo bare;
  *bare.mutable_genesis() = info.genesis();
  bare.set_version(info.version());
  if (info.has_header()) *bare.mutable_header() = info.header();
  bare.set_state_digest(info.state_digest());
  for (const v1::SnapshotBuffer& buffer : info.buffers()) {
    v1::SnapshotBuffer* const named = bare.add_buffers();
    named->set_name(buffer.name());
    named->set_elements(buffer.elements());
  }
  return bare;
}

v1::SnapshotLeaves LeavesFrom(const v1::SnapshotInfo& info, uint64_t first, uint64_t most) {
  const BlockMap map(info);
  v1::SnapshotLeaves page;
  page.set_first(first);
  const uint64_t end = std::min(map.blocks(), first + most);
  std::string* const leaves = page.mutable_leaves();
  leaves->reserve((end - first) * kDigestBytes);
  for (uint64_t block = first; block < end; ++block) {
    *leaves += info.buffers(map.Buffer(block)).leaves(static_cast<int>(map.InBuffer(block)));
  }
  return page;
}

absl::Status SnapshotPages::Begin(v1::SnapshotInfo info) {
  for (const v1::SnapshotBuffer& buffer : info.buffers()) {
    if (!buffer.leaves().empty()) {
      return absl::InvalidArgumentError("its snapshot's leaves are not in pages");
    }
  }
  info_ = std::move(info);
  const BlockMap map(info_);
  blocks_a_buffer_ = map.blocks_a_buffer();
  buffers_ = static_cast<uint64_t>(info_.buffers_size());
  taken_ = 0;
  return absl::OkStatus();
}

absl::Status SnapshotPages::Take(const v1::SnapshotLeaves& page) {
  const uint64_t leaves = page.leaves().size() / kDigestBytes;
  const uint64_t blocks = blocks_a_buffer_ * buffers_;
  if (page.first() != taken_) {
    return absl::InvalidArgumentError(
        absl::StrCat("its snapshot's leaves go on at block ", page.first(), ", not ", taken_));
  }
  if (leaves == 0 || page.leaves().size() % kDigestBytes != 0 || leaves > blocks - taken_) {
    return absl::InvalidArgumentError(absl::StrCat("a page of ", page.leaves().size(),
                                                   " bytes of leaves, of which ", blocks - taken_,
                                                   " are missing"));
  }
  for (uint64_t i = 0; i < leaves; ++i, ++taken_) {
    info_.mutable_buffers(static_cast<int>(taken_ / blocks_a_buffer_))
        ->add_leaves(page.leaves().substr(i * kDigestBytes, kDigestBytes));
  }
  return absl::OkStatus();
}

}  // namespace atolld
