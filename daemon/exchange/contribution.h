// Contribution: what a peer gives to an entry: its update, encoded once by the run's grid.
//
// Immutable and shared: every attempt sends the same bytes, and nobody copies them. Pure functions,
// any thread.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "compression/codec.h"
#include "daemon/bytes.h"
#include "daemon/replica/digest.h"
#include "daemon/replica/payload.h"

namespace atolld {

struct Contribution {
  std::vector<SharedBytes> chunks;  // one a chunk of the grid
  Digest root;                      // ContributionRoot(chunks)
};

// SHA-256 over the SHA-256 of each chunk, in grid order.
Digest ContributionRoot(absl::Span<const SharedBytes> chunks);

// Encodes `values` by the grid. INVALID_ARGUMENT if a value is not finite. Blocking: run it on the
// pool.
absl::StatusOr<Contribution> EncodeContribution(const ChunkGrid& grid, const Codec& codec,
                                                absl::Span<const float> values);

}  // namespace atolld
