// Snapshot: the whole state of one version in one file, written once and never changed.
//
//   "ATOLLSNP" | u32 LE format (1) | u32 0 | record of SnapshotInfo | zeros to a multiple of 4096
//   theta, then each buffer of the outer rule, as raw fp32 LE; each begins at a multiple of 4096
//
// So any program that knows theta's offset in the file can read or map theta. Blocks of 1 MiB are
// numbered consecutively over all buffers, and no block spans two buffers. Every block has a leaf
// in SnapshotInfo and is checked against it whenever it is read or written. A reader may be used
// from any thread, and a writer by one thread at a time. All calls block.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "atoll/v1/replica.pb.h"
#include "daemon/env/env.h"
#include "membership/history/digest.h"

namespace atolld {

inline constexpr uint64_t kSnapshotAlignment = 4096;

// Maps blocks to the bytes of the buffers. Must be made from an info that has passed
// CheckSnapshotShape.
class BlockMap {
 public:
  explicit BlockMap(const v1::SnapshotInfo& info);
  uint64_t blocks() const { return blocks_a_buffer_ * buffers_; }
  uint64_t blocks_a_buffer() const { return blocks_a_buffer_; }
  int Buffer(uint64_t block) const { return static_cast<int>(block / blocks_a_buffer_); }
  uint64_t InBuffer(uint64_t block) const { return block % blocks_a_buffer_; }
  size_t Bytes(uint64_t block) const;
  uint64_t total_bytes() const { return buffer_bytes_ * buffers_; }
  // Returns the offset of the buffer's first byte in a file whose head, with its padding, has
  // `head_bytes` bytes.
  uint64_t BufferOffset(int buffer, uint64_t head_bytes) const;
  uint64_t BlockOffset(uint64_t block, uint64_t head_bytes) const;

 private:
  uint64_t buffer_bytes_;
  uint64_t buffers_;
  uint64_t blocks_a_buffer_;
};

// Checks that `bytes` are block `block` of the snapshot. Fails with DATA_LOSS if they are not; the
// message names the block and the buffer.
absl::Status CheckBlock(const v1::SnapshotInfo& info, const BlockMap& map, uint64_t block,
                        absl::Span<const uint8_t> bytes);

class SnapshotReader {
 public:
  // Opens a snapshot file. Fails with NOT_FOUND if there is no such file, and with DATA_LOSS if it
  // is not a snapshot or its parts do not fit together; the message names the file and the offset.
  static absl::StatusOr<std::unique_ptr<SnapshotReader>> Open(Files& files,
                                                              const std::string& path);
  // Opens the snapshot of `version` of the replica under `dir`. Fails like Open, and with DATA_LOSS
  // if the file holds another version.
  static absl::StatusOr<std::unique_ptr<SnapshotReader>> OpenVersion(Files& files,
                                                                     const std::string& dir,
                                                                     uint64_t version);

  // Like Open, but also opens a file that ends early or has corrupt blocks. Its sound blocks can be
  // read.
  static absl::StatusOr<std::unique_ptr<SnapshotReader>> OpenPartial(Files& files,
                                                                     const std::string& path);
  const v1::SnapshotInfo& info() const { return info_; }
  const BlockMap& map() const { return map_; }
  uint64_t theta_offset() const { return map_.BufferOffset(0, head_bytes_); }

  // Reads and checks one block. `out` must have map().Bytes(block) bytes. Fails with DATA_LOSS if
  // the block does not match its leaf, and with OUT_OF_RANGE if a partial file ends before the
  // block's end.
  absl::Status ReadBlock(uint64_t block, absl::Span<uint8_t> out) const;

  // Reads and checks every block. Fails with DATA_LOSS if a block does not match its leaf; the
  // message names the file, the offset and the block.
  absl::Status CheckBlocks() const;

 private:
  SnapshotReader(std::string path, std::unique_ptr<ReadableFile> file, v1::SnapshotInfo info,
                 uint64_t head_bytes);

  const std::string path_;
  const std::unique_ptr<ReadableFile> file_;
  const v1::SnapshotInfo info_;
  const BlockMap map_;
  const uint64_t head_bytes_;
};

class SnapshotWriter {
 public:
  // Begins the file `temporary`, which Finish renames. The info must have passed CheckSnapshotInfo.
  static absl::StatusOr<std::unique_ptr<SnapshotWriter>> Create(Files& files,
                                                                const std::string& temporary,
                                                                v1::SnapshotInfo info);

  // Continues a `temporary` that an earlier writer left. Keeps the complete blocks before the first
  // one that does not match its leaf. Fails with NOT_FOUND or DATA_LOSS if there is nothing to
  // continue.
  static absl::StatusOr<std::unique_ptr<SnapshotWriter>> Resume(Files& files,
                                                                const std::string& temporary);

  const v1::SnapshotInfo& info() const { return info_; }
  const BlockMap& map() const { return map_; }
  uint64_t next_block() const { return next_block_; }

  // Appends block next_block(). Fails with DATA_LOSS, and writes nothing, if the block does not
  // match its leaf.
  absl::Status AppendBlock(absl::Span<const uint8_t> bytes);

  // Makes the blocks appended so far durable, so that Finish waits less.
  absl::Status Sync();

  // Gives the file its final name, durably. All blocks must have been appended. Fails with
  // DATA_LOSS if another process wrote into the file; Resume then finds the sound blocks.
  absl::Status Finish(const std::string& path);

 private:
  SnapshotWriter(Files& files, std::string temporary, v1::SnapshotInfo info, uint64_t head_bytes);

  Files& files_;
  const std::string temporary_;
  const v1::SnapshotInfo info_;
  const BlockMap map_;
  const uint64_t head_bytes_;
  std::unique_ptr<WritableFile> file_;
  uint64_t size_ = 0;
  uint64_t next_block_ = 0;
};

}  // namespace atolld
