// Says which runs may have owners of experts ([experts]) or slices of adapters ([model]
// lora_slice): the settings that such a run cannot have, and the model that it needs.
//
// Pure. May be called from any thread.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "atoll/v1/run.pb.h"

namespace atolld {

// The most owners of an expert. A run may have as many peers, each of which then owns all experts.
inline constexpr uint32_t kMostOwners = 1024;

// Fails with INVALID_ARGUMENT if the experts or the slices cannot be told apart in the manifest,
// which must be valid, if another setting of the spec cannot be combined with owners of experts, or
// if an entry would have kMaxChunks chunks or more, since each expert begins at a chunk.
// Returns OK if the run has no owners and no patterns.
absl::Status CheckExperts(const v1::RunSpec& spec, const v1::Manifest& manifest);

}  // namespace atolld
