// The branch file: a state of one run that becomes version 0 of another run, the branch.
//
// It is a snapshot file (snapshot.h) of version 0. Its genesis is the parent run's genesis with one
// more field, RunSpec.parent: the lineage. So the file's head suffices to show a coordinator where
// the branch comes from, a peer copies the blocks unchanged, and every byte is checked by the leaf
// of its block. If the file includes the outer rule's buffers, it proves that its state is the
// parent's: its blocks make the state digest that the parent's history has. The same is true of
// every snapshot of the branch's version 0 (CheckSnapshotInfo), no matter which peer gives it.
//
// A file without buffers is for a branch with another outer rule or with a fresh momentum. It names
// the rule "average", which has no buffers. The functions block and may be called from any thread.
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
  std::string dir;  // The folder of a replica or of a saved state.
  // The version to write; nullopt means the newest committed version.
  std::optional<uint64_t> version;
  std::string out;           // The path of the file, which must not exist yet.
  bool fresh_outer = false;  // True to leave the buffers out.
  // The run's headers from the first one on, to be used instead of the headers in the log of `dir`.
  // If empty, the log's headers are used.
  std::vector<v1::EntryHeader> headers{};
};

struct BranchMade {
  v1::Genesis parent;
  v1::Lineage lineage;
  uint64_t bytes = 0;
  // False if the log's first headers are gone, so that the number of tokens is too small.
  bool whole_log = true;
};

// Writes the file. The file is durable when the function returns; no file remains after an error.
// The function only reads `dir`, so it may run beside a live replica. For a moment it needs twice
// the file's size on disk. Fails with ALREADY_EXISTS if `out` exists, and with NOT_FOUND if the
// snapshots and the log do not lead to the wanted version; the message names the versions to which
// they lead.
absl::StatusOr<BranchMade> WriteBranchFile(Files& files, const BranchRequest& request);

// Reads the head of a branch file. The file may lack its blocks. Fails with DATA_LOSS if the file
// is damaged or not a branch file, and with NOT_FOUND if it does not exist.
absl::StatusOr<v1::SnapshotInfo> ReadBranchHead(Files& files, const std::string& path);

// Returns the lineage with which `run` begins. The buffers are left out if its outer rule is not
// the parent's, or if only one of the two runs has control variates. The caller must set
// next_sample, which is known to the code that reads the data.
v1::Lineage LineageUnder(const v1::SnapshotInfo& branch, const v1::RunSpec& run);

// Checks that `genesis` belongs to the version 0 that CreateFromBranch would make from a file with
// this head. Fails with INVALID_ARGUMENT if it does not; the message says whether the lineage, the
// place in the corpus, the tensors or the state differ.
absl::Status CheckMadeFrom(const v1::SnapshotInfo& branch, const v1::Genesis& genesis);

// Makes version 0 of `genesis` in the replica's folder `dir` from the file: its blocks with another
// head. Fails with FAILED_PRECONDITION if `dir` holds a replica, if the tensors differ (the message
// names the first one), or if the file does not have that lineage. Fails with DATA_LOSS if the file
// is damaged; the message names the file and the block.
absl::Status CreateFromBranch(Files& files, const std::string& dir, v1::Genesis genesis,
                              const std::string& path);

}  // namespace atolld
