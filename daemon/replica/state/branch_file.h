// The branch file: a state of one run, as the version 0 of another.
//
// It is a snapshot file (snapshot.h) of version 0. Its genesis is the parent's with one more field,
// RunSpec.parent: the lineage. So the head alone tells a coordinator where the branch comes from, a
// peer takes the blocks over as they are, and every byte is checked by the leaf of its block. Where
// the outer rule's buffers came along, the file proves itself: its blocks make the state digest
// that the parent's history has. So does every snapshot of the branch's version 0, whoever gives it
// (CheckSnapshotInfo).
//
// A file without buffers (another outer rule was wanted, or none of the old momentum) names the
// rule "average", which has none. Any thread, blocking.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "atoll/v1/replica.pb.h"
#include "atoll/v1/run.pb.h"
#include "daemon/env/env.h"
#include "daemon/replica/state/snapshot.h"

namespace atolld {

struct BranchRequest {
  std::string dir;                  // a replica's, or a saved state's
  std::optional<uint64_t> version;  // none: the newest committed
  std::string out;                  // the file, which does not exist yet
  bool fresh_outer = false;         // the buffers stay behind
  // The run's from the first on, instead of those in the log of `dir`; empty: that log's.
  std::vector<v1::EntryHeader> headers{};
};

struct BranchMade {
  v1::Genesis parent;
  v1::Lineage lineage;
  uint64_t bytes = 0;
  bool whole_log = true;  // false: the log's first headers are gone, so tokens are too few
};

// Writes the file: durable when it returns, and nothing is left after an error. Only reads `dir`,
// so it may run beside a live replica. For a moment it needs twice the room. ALREADY_EXISTS: `out`
// is there. NOT_FOUND names the versions that snapshots and log lead to: that one is not.
absl::StatusOr<BranchMade> WriteBranchFile(Files& files, const BranchRequest& request);

// What a file says of itself; its blocks may be missing. DATA_LOSS: it is damaged, or no branch
// file. NOT_FOUND: there is none.
absl::StatusOr<v1::SnapshotInfo> ReadBranchHead(Files& files, const std::string& path);

// The lineage that this run begins with: the buffers stay behind where its outer rule is another,
// or where only one of the two has control variates. next_sample is left to whoever reads the data.
v1::Lineage LineageUnder(const v1::SnapshotInfo& branch, const v1::RunSpec& run);

// Whether `genesis` is of the version 0 that CreateFromBranch makes from a file with this head.
// INVALID_ARGUMENT says what it has that is another's: lineage, place in the corpus, tensors,
// state.
absl::Status CheckMadeFrom(const v1::SnapshotInfo& branch, const v1::Genesis& genesis);

// Makes version 0 of `genesis` in the replica's folder `dir` from the file: the parent's blocks
// under another head. FAILED_PRECONDITION: `dir` holds a replica, the tensors differ (names the
// first), or the file is not of that lineage. DATA_LOSS names file and block.
absl::Status CreateFromBranch(Files& files, const std::string& dir, v1::Genesis genesis,
                              const std::string& path);

}  // namespace atolld
