// SnapshotBuild: a snapshot that is being made from an earlier one and the log, block by block
// between files, in slices.
//
// A few blocks are in memory at a time, whatever the size of the state; only committed entries are
// read, so it may run beside the replica that goes on committing. On disk it needs the room of one
// snapshot and of one stage. One thread at a time, any thread, blocking for a slice.
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

// What a slice may do, in blocks read or stepped: tens of milliseconds on a slow machine, so that a
// pool thread is soon free for a round's work.
inline constexpr uint64_t kSliceBlocks = 32;

// The new blocks wait in stage files of so many blocks each, since their digests stand before them
// in the snapshot; a stage is gone as soon as it was copied.
inline constexpr uint64_t kStageBlocks = 16;

// What a build found to be wrong, when it ends with DATA_LOSS.
enum class BuildFault {
  kNone,
  kBase,   // the snapshot that it began from: an older one may do
  kLog,    // an entry after the base: no snapshot beyond it can be made from this disk
  kState,  // all that was read is sound, the state is not the one that the chain names
};

class SnapshotBuild {
 public:
  // Makes the snapshot of `version`, at or after the base's, at `path`. Every entry after the base
  // is checked: chain, payload digest, decoding. The base's digest and the new state's must be the
  // ones that the headers after them carry, where those are there. `expected`: the new state's
  // digest, known from elsewhere (the live replica).
  SnapshotBuild(Files& files, std::string dir, std::unique_ptr<SnapshotReader> base,
                uint64_t version, std::string path, std::optional<Digest> expected);

  // The same state without a file: `on_block` gets the values of each buffer, theta's first, of one
  // block after another. They are confirmed when Step returns true, and not before.
  using OnBlock = std::function<absl::Status(const std::vector<std::vector<float>>& values)>;
  SnapshotBuild(Files& files, std::string dir, std::unique_ptr<SnapshotReader> base,
                uint64_t version, OnBlock on_block);
  ~SnapshotBuild();  // removes what is not finished

  // Does a bounded piece of the work. True: the snapshot is durable at its path. After an error,
  // which names entry, file or block, there is nothing at the path; begin another build.
  absl::StatusOr<bool> Step();

  uint64_t version() const { return version_; }
  uint64_t base_version() const;
  // Everything is open and every payload was checked: what is dropped beside cannot be missed.
  bool opened() const { return phase_ != Phase::kTail; }
  // As it is known: the base's, and when Step has returned true the new state's.
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
  const OnBlock on_block_;  // null: a file at path_ is made
  std::string expected_;    // bytes of the new state's digest; empty: nobody has said

  Phase phase_ = Phase::kTail;
  BuildFault fault_ = BuildFault::kNone;
  v1::SnapshotInfo info_;
  std::vector<std::unique_ptr<TailEntry>> tail_;
  bool chain_open_ = false;
  uint64_t next_block_ = 0;  // of a buffer while stepping, of the snapshot while copying
  std::vector<std::string> stage_paths_;
  std::vector<std::unique_ptr<WritableFile>> stages_;  // one a buffer, while stepping
  std::unique_ptr<ReadableFile> stage_;                // while copying
  std::unique_ptr<SnapshotWriter> writer_;

  // Kept to be used again.
  std::vector<std::vector<float>> values_;
  std::vector<uint8_t> encoded_;
  std::vector<float> mean_;
};

// The newest snapshot under `dir` at or before `version` whose description can be read. NOT_FOUND:
// there is none. DATA_LOSS: none can be read; names the newest one's fault.
absl::StatusOr<std::unique_ptr<SnapshotReader>> FindSnapshot(Files& files, const std::string& dir,
                                                             uint64_t version);

// All of a build at once.
absl::Status BuildSnapshot(Files& files, const std::string& dir,
                           std::unique_ptr<SnapshotReader> base, uint64_t version,
                           const std::string& path);

}  // namespace atolld
