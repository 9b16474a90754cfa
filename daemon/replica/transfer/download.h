// Download: the file that a snapshot fetch fills, block by block in order, so that what is there is
// always a prefix that can be gone on with after a restart.
//
// Blocks may come in any order: those ahead of the prefix wait in memory (the fetch bounds how far
// ahead it asks), those that a snapshot on this disk holds with the same leaf are copied from
// there. One job at a time, on the pool; blocking.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "atoll/v1/replica.pb.h"
#include "compression/base/bytes.h"
#include "daemon/env/env.h"
#include "daemon/replica/state/snapshot.h"
#include "membership/history/digest.h"

namespace atolld {

class Download {
 public:
  Download(Files& files, std::string dir, v1::Genesis genesis);

  // Takes up what an earlier fetch left, if it is of this run and sound. FAILED_PRECONDITION: the
  // directory holds a replica of another genesis.
  absl::Status Begin();

  // Of the snapshot that is being filled; nullptr: none.
  const v1::SnapshotInfo* info() const { return writer_ ? &writer_->info() : nullptr; }
  const BlockMap& map() const { return writer_->map(); }
  uint64_t next_block() const { return writer_->next_block(); }
  bool complete() const { return next_block() == map().blocks(); }
  uint64_t bytes() const;  // of the prefix

  // INVALID_ARGUMENT: none of this run, or its parts disagree. Changes nothing.
  absl::Status Check(const v1::SnapshotInfo& info) const;
  // Begins this one, which must have passed Check. What was begun before is kept as a place where
  // blocks may be found. Errors of this and what follows are this machine's, where not said
  // otherwise.
  absl::Status Start(const v1::SnapshotInfo& info);
  // This version is of no use any more.
  void Abandon();

  // Blocks at or after next_block() that can be copied from this disk, as far as their leaves say.
  std::vector<uint64_t> FindLocal();
  // DATA_LOSS: it is not what its leaf says.
  absl::Status Take(uint64_t block, const SharedBytes& bytes);
  // Appends what is here, a few blocks at most. `lost` gets a block that could not be copied after
  // all. True: call it again.
  absl::StatusOr<bool> Append(std::vector<uint64_t>* lost);

  // Gives the complete file its name under snapshots/.
  absl::Status Finish();

 private:
  std::string PartialPath() const;
  std::string FormerPath() const;
  absl::Status AppendNext(absl::Span<const uint8_t> bytes);

  Files& files_;
  const std::string dir_;
  const v1::Genesis genesis_;
  std::unique_ptr<SnapshotWriter> writer_;
  std::vector<std::unique_ptr<SnapshotReader>> local_files_;
  std::map<uint64_t, size_t> local_;  // block -> which of the files holds it
  std::map<uint64_t, SharedBytes> waiting_;
  int unsynced_blocks_ = 0;
};

}  // namespace atolld
