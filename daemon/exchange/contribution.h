// Contribution: what a peer gives to an entry: its update, encoded once by the run's grid.
//
// Immutable and shared: every attempt sends the same bytes, and nobody copies them. With them stand
// the norms of what they decode to, by which updates are judged: sums of squares in double, in the
// order of optimizer/aggregation_kernels.h, so whoever has the bytes gets the same numbers. Pure
// functions, any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "atoll/v1/exchange.pb.h"
#include "atoll/v1/run.pb.h"
#include "compression/base/bytes.h"
#include "compression/codec.h"
#include "membership/history/digest.h"
#include "membership/history/merkle_tree.h"
#include "membership/history/payload.h"

namespace atolld {

// Of one decoded chunk.
struct ChunkNorms {
  double squared_norm = 0;
  double squared_distance = 0;  // from the centre's values; 0 where no centre was asked for
};

struct Contribution {
  std::vector<SharedBytes> chunks;  // one a chunk of the grid
  std::vector<Digest> digests;      // SHA-256 of each
  std::vector<ChunkNorms> norms;    // as many
  std::string leaves;               // ContributionLeaves(digests, norms)
  MerkleTree pages;                 // PagesOf(leaves)
  Digest root;                      // ContributionRoot(leaves)
};

// What the root is made of. A chunk's leaf: SHA-256 of its encoded bytes, then the fp64 bits of its
// squared norm and of its squared distance, little-endian.
inline constexpr size_t kLeafBytes = 48;
struct Leaf {
  Digest digest;
  ChunkNorms norms;
};

// One a chunk, in grid order.
std::string ContributionLeaves(absl::Span<const Digest> digests,
                               absl::Span<const ChunkNorms> norms);
// As they travel, in order: messages of 16384 leaves, whatever the size of the grid.
std::vector<v1::ContributionLeaves> LeavesInPages(absl::string_view leaves);
// What a contributor signs: a hash over the number of leaves and the top of the tree of their
// pages.
Digest ContributionRoot(absl::string_view leaves);
Digest ContributionRoot(absl::string_view leaves, const MerkleTree& pages);

// Leaves go into the tree by pages, of which the last may be short: a tree over single leaves would
// take three times as long to hash, and a page is short beside the chunk that it proves.
inline constexpr uint32_t kLeavesAPage = 16;
MerkleTree PagesOf(absl::string_view leaves);
// That of the chunk's leaf. There are leaves for it.
absl::string_view PageOf(absl::string_view leaves, uint32_t chunk);
// The chunk's leaf, if this page and this path (MerkleTree::Path) make the root of a contribution
// of so many chunks. INVALID_ARGUMENT: they do not.
absl::StatusOr<Leaf> ProvenLeaf(absl::string_view root, uint32_t chunks, uint32_t chunk,
                                absl::string_view page, absl::string_view path);
// That of one chunk. There are leaves for it.
Leaf LeafOf(absl::string_view leaves, uint32_t chunk);
// The whole contribution's, in the order of WholeNorms.
double SquaredNormOf(absl::string_view leaves);
// The leaves and the root that go with its chunks' bytes and these norms.
void SetNorms(std::vector<ChunkNorms> norms, Contribution* contribution);

// Sums over the chunks in grid order: sum = +0, then sum = sum + chunk.
ChunkNorms WholeNorms(absl::Span<const ChunkNorms> chunks);

// The squared norm of what a chunk's bytes decode to: the codec's own, or SquaredNorm
// (optimizer/aggregation_kernels.h) of the values. INVALID_ARGUMENT if they cannot be decoded, or
// not to finite values.
absl::StatusOr<double> MeasureChunk(const Codec& codec, absl::Span<const uint8_t> bytes,
                                    size_t elements);

// The mean of the entry before: what a rule with a centre starts from.
struct Centre {
  const Codec* codec = nullptr;     // of means
  std::vector<SharedBytes> chunks;  // encoded, by the grid; empty: zeros, before the first entry
};

// The squared distance of decoded values from the centre's of that chunk. INVALID_ARGUMENT if those
// cannot be decoded.
absl::StatusOr<double> MeasureDistance(const Centre& centre, uint32_t chunk,
                                       absl::Span<const float> values);

// The norms with their distances from another centre. Blocking: run it on the pool.
absl::StatusOr<std::vector<ChunkNorms>> NormsFrom(const Centre& centre, const ChunkGrid& grid,
                                                  const Codec& codec,
                                                  const Contribution& contribution);

// Encodes `values` by the grid, and measures norms but no distances; a stochastic rounding's key is
// that of the whole contribution, each chunk has its ChunkKey. INVALID_ARGUMENT if a value is not
// finite. Blocking: run it on the pool.
absl::StatusOr<Contribution> EncodeContribution(const ChunkGrid& grid, const Codec& codec,
                                                const Rounding& rounding,
                                                absl::Span<const float> values);

// What tells peers' roundings apart: the first 8 bytes, little-endian, of the SHA-256 of the id.
uint64_t PeerPart(absl::string_view peer);

// How a peer rounds the update that it trained on these samples: no two updates share the key.
// To nearest where what encodes it has nothing else.
Rounding ContributionRounding(const v1::RunSpec& spec, const Codec& codec, absl::string_view peer,
                              uint64_t first_sample);

}  // namespace atolld
