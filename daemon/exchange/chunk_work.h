// What the pool does with single chunks: bring them into the form of the wire and back, and average
// them.
//
// Every function here depends on its arguments alone; what it allocates depends on the shape that
// the caller gives, never on the bytes. Any thread.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "compression/codec.h"
#include "compression/rounding.h"
#include "daemon/bytes.h"

namespace atolld {

// How chunks are encoded, and how they travel.
struct ChunkForm {
  const Codec* codec;
  bool zstd;
  bool stochastic = false;  // means are rounded by keys made of `seed`; the codec can be
  uint64_t seed = 0;

  // The most bytes that a chunk of so many values takes on the wire.
  size_t MaxWireBytes(size_t elements) const;
  // Encoded -> wire. Shares the bytes when zstd is off.
  SharedBytes ToWire(const SharedBytes& encoded) const;
  // Wire -> encoded; INVALID_ARGUMENT unless they fit a chunk of so many values.
  absl::StatusOr<SharedBytes> FromWire(const SharedBytes& wire, size_t elements) const;
  // As FromWire, and the codec can decode it.
  absl::StatusOr<SharedBytes> Verified(const SharedBytes& wire, size_t elements) const;
};

// What is averaged into a chunk's mean: one contributor's chunk, or a relay's mean of several.
struct Piece {
  uint32_t sender;           // index in the plan
  std::string contributors;  // bitmap: whose chunks it stands for
  bool partial;              // a relay's mean, though it be of one contributor
  SharedBytes bytes;
  bool on_wire;  // in the form of the wire; the reducer's own are not
};

// What tells peers' roundings apart: the first 8 bytes, little-endian, of the SHA-256 of the id.
uint64_t PeerPart(absl::string_view peer);

// Which mean it is: what its rounding depends on.
struct MeanPlace {
  uint64_t version;
  uint32_t chunk;
  bool partial;                        // a relay's
  absl::Span<const uint64_t> parts{};  // PeerPart of each contributor, if rounding is stochastic
};

// How that mean is rounded: by ChunkKey(RoundingKey(seed, version, part), chunk), where part is 0
// for the mean itself, and ~PeerPart of its lowest contributor for a relay's: a header may number
// contributors otherwise than the plan did, and names no relay.
Rounding MeanRounding(const ChunkForm& form, const MeanPlace& place,
                      const std::string& contributors);

struct Reduced {
  SharedBytes encoded;
  SharedBytes wire;
  std::string contributors;           // bitmap: whose chunks it is the mean of
  std::vector<std::string> partials;  // those of its pieces that were partial means
  std::vector<std::pair<uint32_t, absl::Status>>
      refused;  // senders of pieces that could not be decoded, which are left out
};

// The weighted mean of `pieces`, encoded once, as `means` says; so are partial means among them,
// all others as `updates` says:
//
//   mean = (sum over pieces of W_p * Decode(piece_p)) * (1 / sum of W_p)
//
// in the order of `pieces` (ascending by lowest contributor) and the arithmetic of
// optimizer/weighted_mean.h; W_p is the contributor's weight, of a partial mean the fp32 sum of its
// contributors' weights in roster order. The outer Status: no piece was left, or the mean is not
// finite; `refused` tells of pieces even then.
absl::Status Reduce(const ChunkForm& updates, const ChunkForm& means, const MeanPlace& place,
                    size_t elements, const std::vector<float>& weights,
                    const std::vector<Piece>& pieces, Reduced* reduced);

}  // namespace atolld
