// Lineage: the origin of a run's version 0, if it is a state of another run (a branch).
//
// It is part of the run's genesis, and the digest of the genesis covers it. A branch that took over
// its parent's outer buffers can prove its origin: its version 0 has the same blocks as the
// parent's state, so the parent's state digest can be computed from them (see
// daemon/replica/state/branch_file.h). Pure. May be called from any thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "atoll/v1/run.pb.h"
#include "membership/history/digest.h"

namespace atolld {

inline constexpr int kMostAncestors = 64;  // the most entries of Lineage.earlier

// Describes a state from which a branch begins, except for the genesis of its run.
struct BranchPoint {
  uint64_t version = 0;
  Digest state_digest{};
  Digest header_digest{};    // the digest of its header or, for version 0, of the genesis
  uint64_t tokens = 0;       // the tokens of all entries up to this version
  uint64_t next_sample = 0;  // the first sample after all samples that these entries spent
  bool buffers = true;       // true if the outer rule's buffers are included
};

// Returns the lineage of a branch that begins at this state of `parent`, with all its ancestors. If
// there are more than kMostAncestors, the oldest are left out.
v1::Lineage LineageOf(const v1::Genesis& parent, const BranchPoint& point);

// Fails with INVALID_ARGUMENT if the lineage violates what run.proto says of ids, digests or
// limits. A run without a lineage is valid.
absl::Status CheckLineage(const v1::RunSpec& spec);

// Adds the lineage to the digest of a genesis, after all other fields. Adds nothing for a run
// without one.
void AddLineage(const v1::RunSpec& spec, DigestBuilder& builder);

// Returns text such as "version 44 of run books (state 1c5a2f09b8e7), with its outer buffers".
std::string LineageText(const v1::Lineage& lineage);

// -----------------------------------------------------------------------------------------------
// These functions check that a model fits a state, by comparing the tensors of both.

// A manifest and its name in messages, such as "the run's model".
struct NamedManifest {
  const v1::Manifest& manifest;
  absl::string_view name;
};

// Fails with FAILED_PRECONDITION if a tensor differs in name, shape or place; the message names the
// first such tensor.
absl::Status CheckSameTensors(const NamedManifest& ours, const NamedManifest& theirs);

}  // namespace atolld
