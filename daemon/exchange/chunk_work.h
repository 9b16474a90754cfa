// What the pool does with single chunks: bring them into the form of the wire and back, and average
// them.
//
// Every function here depends on its arguments alone; what it allocates depends on the shape that
// the caller gives, never on the bytes. Any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "compression/base/bytes.h"
#include "compression/codec.h"
#include "daemon/exchange/contribution.h"
#include "membership/history/digest.h"
#include "optimizer/aggregation_rule.h"

namespace atolld {

// An encoded chunk, and the squared norm of what it decodes to (contribution.h, MeasureChunk).
struct MeasuredChunk {
  SharedBytes encoded;
  double squared_norm = 0;
};

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
  // As FromWire; INVALID_ARGUMENT also if the codec cannot decode it. The encoded bytes lie in
  // `place` where one is given and they have its length.
  absl::StatusOr<MeasuredChunk> Measured(const ByteParts& wire, size_t elements,
                                         std::optional<FreshBytes> place) const;
};

// What is averaged into a chunk's mean: one contributor's chunk, or a relay's mean of several.
struct Piece {
  uint32_t sender;           // index in the plan
  std::string contributors;  // bitmap: whose chunks it stands for
  bool partial;              // a relay's mean, though it be of one contributor
  SharedBytes bytes;
  bool on_wire;  // in the form of the wire; the reducer's own are not
  // of its encoded bytes, as its contributor's leaves say; not looked at where nobody told it
  std::optional<Digest> digest = std::nullopt;
  std::optional<double> squared_norm = std::nullopt;  // of what they decode to, as digest
};

// Gives each piece's encoded bytes in order; INVALID_ARGUMENT unless they fit and have its digest
// and norm. Partial means are in the form of means. A few are unpacked and hashed at once.
using TakeEncoded = absl::FunctionRef<void(const Piece&, absl::StatusOr<SharedBytes>)>;
void ForEachEncoded(const ChunkForm& updates, const ChunkForm& means,
                    absl::Span<const Piece> pieces, size_t elements, TakeEncoded take);

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

// How the pieces of a plan's contributors become one.
struct MeanTerms {
  std::vector<float> weights;           // by contributor
  std::vector<float> scales;            // by contributor: what its values are multiplied by, 0 to 1
  std::optional<AggregationRule> rule;  // nothing: the weighted mean
  std::shared_ptr<const Centre> centre;  // nullptr: zeros
};

struct Reduced {
  SharedBytes encoded;
  SharedBytes wire;
  double squared_norm = 0;            // of what it decodes to; not of a relay's
  std::string contributors;           // bitmap: whose chunks it is the mean of
  std::vector<std::string> partials;  // those of its pieces that were partial means
  std::vector<std::pair<uint32_t, absl::Status>>
      refused;  // senders of pieces that cannot be decoded or have another digest: left out
};

// The mean of `pieces`, encoded once, as `means` says; so are partial means among them, all others
// as `updates` says. The weighted mean is
//
//   mean = (sum over pieces of (W_p * s_p) * Decode(piece_p)) * (1 / sum of W_p)
//
// in the order of `pieces` (ascending by lowest contributor) and the arithmetic of
// optimizer/aggregation_rule.h; W_p and s_p are the contributor's weight and scale, of a partial
// mean the fp32 sum of its contributors' weights in roster order, and 1: who made it has scaled.
//
// The other rules are carried out on one chunk, by the values of those whose chunk is here, and
// nothing else of their updates. A rule by coordinates needs no more. Krum and the geometric median
// judge by the products of this chunk's values alone, so each chunk has a choice of its own, and
// each bears the liars that the rule is made for. Centred clipping is one step from the mean v of
// the entry before, whole updates' pulls being cut by the plan's scales c_i:
//
//   mean = (sum of (w_i * c_i) * x_i + rest * v) * (1 / sum of w_i)
//   rest = max(0, sum of w_i - sum of w_i * c_i)
//
// all in fp32, each sum in roster order, each operation rounded on its own; nothing is added for v
// where the rest is 0.
//
// The outer Status: no piece was
// left, too few for the rule (FAILED_PRECONDITION), or the mean is not finite; `refused` tells of
// pieces even then. The mean is encoded into `out` where it is given; it is as long as any can be.
absl::Status Reduce(const ChunkForm& updates, const ChunkForm& means, const MeanPlace& place,
                    size_t elements, const MeanTerms& terms, const std::vector<Piece>& pieces,
                    std::optional<FreshBytes> out, Reduced* reduced);

}  // namespace atolld
