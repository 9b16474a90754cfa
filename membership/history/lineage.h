// Lineage: where version 0 of a run comes from, if it is a state of another run (a branch).
//
// It stands in the run's genesis, and the digest of the genesis covers it. A branch that has its
// parent's outer buffers proves itself: its version 0 has the blocks of the parent's state, so the
// parent's state digest can be computed from them (daemon/replica/state/branch_file.h). Pure
// functions, any thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "atoll/v1/run.pb.h"
#include "membership/history/digest.h"

namespace atolld {

inline constexpr int kMostAncestors = 64;  // Lineage.earlier

// What is said of a state beside the genesis of its run.
struct BranchPoint {
  uint64_t version = 0;
  Digest state_digest{};
  Digest header_digest{};    // the genesis digest at version 0
  uint64_t tokens = 0;       // of all entries up to there
  uint64_t next_sample = 0;  // behind all samples that these entries spent
  bool buffers = true;       // the outer rule's come along
};

// The lineage of a branch that begins at this state of `parent`, with all that went before it; of
// more than kMostAncestors the oldest are left out.
v1::Lineage LineageOf(const v1::Genesis& parent, const BranchPoint& point);

// INVALID_ARGUMENT: ids, digests or limits of run.proto are broken. A run without one is fine.
absl::Status CheckLineage(const v1::RunSpec& spec);

// Into the digest of a genesis, behind all other fields; nothing for a run without one.
void AddLineage(const v1::RunSpec& spec, DigestBuilder& builder);

// "version 44 of run books (state 1c5a2f09b8e7), with its outer buffers"
std::string LineageText(const v1::Lineage& lineage);

// -----------------------------------------------------------------------------------------------
// Whether a model fits a state: the tensors of both.

// What is compared, and what messages call it: "the run's model".
struct NamedManifest {
  const v1::Manifest& manifest;
  absl::string_view name;
};

// FAILED_PRECONDITION names the first tensor that differs in name, shape or place.
absl::Status CheckSameTensors(const NamedManifest& ours, const NamedManifest& theirs);

}  // namespace atolld
