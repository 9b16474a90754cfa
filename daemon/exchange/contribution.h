// Contribution: a peer's update for an entry, encoded once by the run's grid.
//
// A contribution is immutable and shared: every attempt sends the same bytes, without copying them.
// It also has the norms of its decoded values, by which updates are judged. The norms are sums of
// squares in double, in the order of optimizer/aggregation_kernels.h, so every peer that has the
// bytes computes the same numbers. The functions are pure and may be called from any thread.
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

// The norms of one decoded chunk.
struct ChunkNorms {
  double squared_norm = 0;
  // The squared distance from the centre's values; 0 without a centre.
  double squared_distance = 0;
};

struct Contribution {
  // The encoded chunks, one for each chunk of the grid.
  std::vector<SharedBytes> chunks;
  std::vector<Digest> digests;    // The SHA-256 of each encoded chunk.
  std::vector<ChunkNorms> norms;  // The norms of each chunk.
  std::string leaves;             // ContributionLeaves(digests, norms)
  MerkleTree pages;               // PagesOf(leaves)
  Digest root;                    // ContributionRoot(leaves)
};

// The root is computed from the leaves. A chunk's leaf is the SHA-256 of its encoded bytes, then
// the fp64 bits of its squared norm and of its squared distance, little-endian.
inline constexpr size_t kLeafBytes = 48;
struct Leaf {
  Digest digest;
  ChunkNorms norms;
};

// Returns one leaf for each chunk, in grid order.
std::string ContributionLeaves(absl::Span<const Digest> digests,
                               absl::Span<const ChunkNorms> norms);
// Returns the leaves in the form in which they are sent: in order, in messages of at most 16384
// leaves.
std::vector<v1::ContributionLeaves> LeavesInPages(absl::string_view leaves);
// Returns the root that a contributor signs: a hash over the number of leaves and the top of the
// tree of their pages.
Digest ContributionRoot(absl::string_view leaves);
Digest ContributionRoot(absl::string_view leaves, const MerkleTree& pages);

// The number of leaves in a page; the last page may have fewer. The Merkle tree has pages of leaves
// at its bottom, because a tree of single leaves would take three times as long to hash, and a page
// is short compared with the chunk that it proves.
inline constexpr uint32_t kLeavesAPage = 16;
MerkleTree PagesOf(absl::string_view leaves);
// Returns the page that contains the chunk's leaf. The leaf must exist.
absl::string_view PageOf(absl::string_view leaves, uint32_t chunk);
// Returns the chunk's leaf. Fails with INVALID_ARGUMENT unless this page and this path (see
// MerkleTree::Path) lead to the root of a contribution with `chunks` chunks.
absl::StatusOr<Leaf> ProvenLeaf(absl::string_view root, uint32_t chunks, uint32_t chunk,
                                absl::string_view page, absl::string_view path);
// Returns the leaf of one chunk. The leaf must exist.
Leaf LeafOf(absl::string_view leaves, uint32_t chunk);
// Returns the squared norm of the whole contribution, summed in the same order as WholeNorms.
double SquaredNormOf(absl::string_view leaves);
// Sets the norms of `contribution`, and also its leaves, pages and root, which are computed from
// the norms and the chunks' bytes.
void SetNorms(std::vector<ChunkNorms> norms, Contribution* contribution);

// Returns the sums of the norms over the chunks, in grid order: sum = +0, then sum = sum + chunk.
ChunkNorms WholeNorms(absl::Span<const ChunkNorms> chunks);

// Returns the squared norm of a chunk's decoded values. It is computed by the codec's own
// SquaredNorm if the codec has one, otherwise by SquaredNorm in optimizer/aggregation_kernels.h.
// Fails with INVALID_ARGUMENT if the bytes cannot be decoded to finite values.
absl::StatusOr<double> MeasureChunk(const Codec& codec, absl::Span<const uint8_t> bytes,
                                    size_t elements);

// The mean of the previous entry, from which a rule with a centre starts.
struct Centre {
  const Codec* codec = nullptr;  // The codec of means.
  // The encoded chunks of the grid. Empty before the first entry, when all values are zero.
  std::vector<SharedBytes> chunks;
};

// Returns the squared distance of decoded values from the centre's values of that chunk. Fails with
// INVALID_ARGUMENT if the centre's chunk cannot be decoded.
absl::StatusOr<double> MeasureDistance(const Centre& centre, uint32_t chunk,
                                       absl::Span<const float> values);

// Returns the contribution's norms with the distances from this centre. The call blocks, so run it
// on the pool.
absl::StatusOr<std::vector<ChunkNorms>> NormsFrom(const Centre& centre, const ChunkGrid& grid,
                                                  const Codec& codec,
                                                  const Contribution& contribution);

// Encodes `values` by the grid, and measures norms but no distances. With experts, `owned` is a
// bitmap of those that the update covers; other experts' chunks have no bytes, and their norms are
// 0. If the rounding is stochastic, it has the key of the whole contribution, and each chunk is
// rounded with its own ChunkKey. Fails with INVALID_ARGUMENT if a value is not finite. The call
// blocks, so run it on the pool.
absl::StatusOr<Contribution> EncodeContribution(const ChunkGrid& grid, const Codec& codec,
                                                const Rounding& rounding,
                                                absl::Span<const float> values,
                                                absl::string_view owned = {});

// Returns the number that makes the roundings of different peers differ. It is the first 8 bytes,
// little-endian, of the SHA-256 of the peer's id.
uint64_t PeerPart(absl::string_view peer);

// Returns how a peer rounds the update that it trained on these samples: to nearest if the codec
// has no stochastic rounding, otherwise with a key that no other update has.
Rounding ContributionRounding(const v1::RunSpec& spec, const Codec& codec, absl::string_view peer,
                              uint64_t first_sample);

}  // namespace atolld
