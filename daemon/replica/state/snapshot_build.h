// SnapshotBuild: makes a snapshot from an earlier snapshot and the log. It works in slices, from
// file to file, block by block.
//
// Only a few blocks are in memory at a time, regardless of the size of the state. It reads only
// committed entries, so it may run beside a replica that continues to commit. On disk it needs room
// for one snapshot and the stage files. Used by one thread at a time; each call blocks for a slice.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/env/env.h"
#include "daemon/replica/state/snapshot.h"

namespace atolld {

// The size of a slice, in blocks that are read or stepped. A slice takes tens of milliseconds on a
// slow machine, so that a pool thread is soon free for a round's work.
inline constexpr uint64_t kSliceBlocks = 32;

// The number of blocks in a stage file. New blocks wait in stage files, because in a snapshot the
// digests of all blocks come before the blocks; a stage file is removed as soon as it was copied.
inline constexpr uint64_t kStageBlocks = 16;

// The kind of fault that a build has found if it ends with DATA_LOSS.
enum class BuildFault {
  kNone,
  kBase,   // The base snapshot is faulty; an older one may be usable.
  kLog,    // An entry after the base is faulty; no later snapshot can be made from this disk.
  kState,  // All inputs are sound, but the state is not the one that the chain names.
};

class SnapshotBuild {
 public:
  // Makes the snapshot of `version`, which must not be older than the base, at `path`. Checks of
  // every entry after the base its place in the chain, its payload's digest and that the payload
  // can be decoded. The digests of the base and of the new state must equal those in the headers
  // after them, if these headers exist. `expected` is the new state's digest, if it is known from
  // another source, such as the replica in memory.
  SnapshotBuild(Files& files, std::string dir, std::unique_ptr<SnapshotReader> base,
                uint64_t version, std::string path, std::optional<Digest> expected);

  // Makes the same state without a file. `on_block` gets one block after another; each has the
  // values of all buffers, theta first. The values are known to be right only when Step returns
  // true.
  using OnBlock = std::function<absl::Status(const std::vector<std::vector<float>>& values)>;
  SnapshotBuild(Files& files, std::string dir, std::unique_ptr<SnapshotReader> base,
                uint64_t version, OnBlock on_block);
  ~SnapshotBuild();  // Removes unfinished files.

  // Does a bounded piece of the work. Returns true once the snapshot is durable at its path. After
  // an error there is no file at the path, and the caller must begin another build; the message
  // names the entry, the file or the block.
  absl::StatusOr<bool> Step();

  uint64_t version() const { return version_; }
  uint64_t base_version() const;
  // Returns true if all files are open and every payload was checked. The replica may then drop
  // files.
  bool opened() const { return phase_ != Phase::kTail; }
  // The base's info or, once Step has returned true, the new state's info.
  const v1::SnapshotInfo& info() const { return info_; }
  BuildFault fault() const { return fault_; }

 private:
  struct TailEntry;
  enum class Phase { kTail, kBlocks, kCopy, kFinished };

  absl::Status OpenChain();
  absl::Status CheckTail();
  absl::Status StepBlocks();
  absl::Status StepBlock(const TailEntry& entry, uint64_t begin, uint64_t elements);
  absl::Status DecodeChunk(const TailEntry& entry, uint32_t chunk);
  absl::Status Stage(uint64_t block);
  absl::Status Describe();
  absl::Status Copy();
  std::string StagePath(size_t buffer, uint64_t block) const;
  absl::Status Blame(BuildFault fault, const absl::Status& status);

  Files& files_;
  const std::string dir_;
  const std::unique_ptr<SnapshotReader> base_;
  const uint64_t version_;
  const std::string path_;
  const OnBlock on_block_;  // If null, a file at path_ is made.
  std::string expected_;    // The bytes of the new state's digest; empty if it is not known.

  Phase phase_ = Phase::kTail;
  BuildFault fault_ = BuildFault::kNone;
  v1::SnapshotInfo info_;
  std::vector<std::unique_ptr<TailEntry>> tail_;
  bool chain_open_ = false;
  // The next block: of a buffer while stepping, of the snapshot while copying.
  uint64_t next_block_ = 0;
  std::vector<std::string> stage_paths_;
  // One stage file for each buffer, while stepping.
  std::vector<std::unique_ptr<WritableFile>> stages_;
  std::unique_ptr<ReadableFile> stage_;  // The stage file that is being copied.
  std::unique_ptr<SnapshotWriter> writer_;

  // Memory that is kept for reuse.
  std::vector<std::vector<float>> values_;
  std::vector<uint8_t> encoded_;
  std::vector<float> mean_;
};

// Returns the newest snapshot under `dir` at or before `version` that has a readable head. Fails
// with NOT_FOUND if there is no snapshot, and with DATA_LOSS if no snapshot's head can be read; the
// message names the fault of the newest snapshot.
absl::StatusOr<std::unique_ptr<SnapshotReader>> FindSnapshot(Files& files, const std::string& dir,
                                                             uint64_t version);

// Runs a whole build at once.
absl::Status BuildSnapshot(Files& files, const std::string& dir,
                           std::unique_ptr<SnapshotReader> base, uint64_t version,
                           const std::string& path);

}  // namespace atolld
