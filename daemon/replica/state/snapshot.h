// Snapshot: the whole state of one version in one file, written once and never changed.
//
//   "ATOLLSNP" | u32 LE format (1) | u32 0 | record of SnapshotInfo | zeros to a multiple of 4096
//   theta, then each buffer of the outer rule, as raw fp32 LE; each begins at a multiple of 4096
//
// So theta can be read, or mapped, by any program that knows its offset. Blocks of 1 MiB are
// numbered through all buffers; none spans two; every one has its leaf in SnapshotInfo and is
// checked whenever it is read or written. A reader may be used from any thread; a writer by one at
// a time. All blocking.
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

// Which bytes of which buffer a block holds. Made from an info whose shape was checked.
class BlockMap {
 public:
  explicit BlockMap(const v1::SnapshotInfo& info);
  uint64_t blocks() const { return blocks_a_buffer_ * buffers_; }
  uint64_t blocks_a_buffer() const { return blocks_a_buffer_; }
  int Buffer(uint64_t block) const { return static_cast<int>(block / blocks_a_buffer_); }
  uint64_t InBuffer(uint64_t block) const { return block % blocks_a_buffer_; }
  size_t Bytes(uint64_t block) const;
  uint64_t total_bytes() const { return buffer_bytes_ * buffers_; }
  // Of the buffer's first byte in a file whose head (with padding) has `head_bytes`.
  uint64_t BufferOffset(int buffer, uint64_t head_bytes) const;
  uint64_t BlockOffset(uint64_t block, uint64_t head_bytes) const;

 private:
  uint64_t buffer_bytes_;
  uint64_t buffers_;
  uint64_t blocks_a_buffer_;
};

// OK if `bytes` are block `block` of the snapshot; DATA_LOSS names block and buffer.
absl::Status CheckBlock(const v1::SnapshotInfo& info, const BlockMap& map, uint64_t block,
                        absl::Span<const uint8_t> bytes);

class SnapshotReader {
 public:
  // NOT_FOUND: no such file. DATA_LOSS names file and offset: not a snapshot, or its parts
  // disagree.
  static absl::StatusOr<std::unique_ptr<SnapshotReader>> Open(Files& files,
                                                              const std::string& path);
  // As Open, of a file that may end early or whose blocks may be spoiled: what is sound of it can
  // be read.
  static absl::StatusOr<std::unique_ptr<SnapshotReader>> OpenPartial(Files& files,
                                                                     const std::string& path);
  const v1::SnapshotInfo& info() const { return info_; }
  const BlockMap& map() const { return map_; }
  uint64_t theta_offset() const { return map_.BufferOffset(0, head_bytes_); }

  // `out` is map().Bytes(block) long. DATA_LOSS if the block is not what its leaf says,
  // OUT_OF_RANGE if a partial file ends before it.
  absl::Status ReadBlock(uint64_t block, absl::Span<uint8_t> out) const;

  // Reads every block. DATA_LOSS names file, offset and block.
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
  // Begins `temporary`, which Finish renames. The info must have passed
  // CheckSnapshotInfo.
  static absl::StatusOr<std::unique_ptr<SnapshotWriter>> Create(Files& files,
                                                                const std::string& temporary,
                                                                v1::SnapshotInfo info);

  // Goes on with a `temporary` that an earlier writer left: keeps every whole block that its leaf
  // confirms, up to the first that it does not. NOT_FOUND or DATA_LOSS: there is nothing to go on
  // with.
  static absl::StatusOr<std::unique_ptr<SnapshotWriter>> Resume(Files& files,
                                                                const std::string& temporary);

  const v1::SnapshotInfo& info() const { return info_; }
  const BlockMap& map() const { return map_; }
  uint64_t next_block() const { return next_block_; }

  // Appends block next_block(). DATA_LOSS if it is not what its leaf says; nothing is written then.
  absl::Status AppendBlock(absl::Span<const uint8_t> bytes);

  // Makes what was appended so far durable, so that Finish has less to wait for.
  absl::Status Sync();

  // Gives it its final name; durable when it returns. All blocks must be there. DATA_LOSS: somebody
  // else wrote into the file; Resume finds what is sound of it.
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
