// Contribution: what a peer gives to an entry: its update, encoded once by the run's grid.
//
// Immutable and shared: every attempt sends the same bytes, and nobody copies them. Pure functions,
// any thread.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "atoll/v1/run.pb.h"
#include "compression/codec.h"
#include "compression/rounding.h"
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

// Encodes `values` by the grid; a stochastic rounding's key is that of the whole contribution, each
// chunk has its ChunkKey. INVALID_ARGUMENT if a value is not finite. Blocking: run it on the pool.
absl::StatusOr<Contribution> EncodeContribution(const ChunkGrid& grid, const Codec& codec,
                                                const Rounding& rounding,
                                                absl::Span<const float> values);

// How a peer rounds the update that it trained on these samples: no two updates share the key.
// To nearest where the run's codec of updates has nothing else.
Rounding ContributionRounding(const v1::RunSpec& spec, absl::string_view peer,
                              uint64_t first_sample);

}  // namespace atolld
