// The pool's work on single chunks: converting them to and from the wire form (encoded, and
// compressed if zstd is on), and averaging them.
//
// The result of each function depends only on its arguments. The memory that it allocates depends
// on the shape that the caller gives, never on the bytes. All functions may be called from any
// thread.
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

// An encoded chunk, and the squared norm of its decoded values (contribution.h, MeasureChunk).
struct MeasuredChunk {
  SharedBytes encoded;
  double squared_norm = 0;
};

// Describes how chunks are encoded and sent.
struct ChunkForm {
  const Codec* codec;
  bool zstd;
  // If true, means are rounded stochastically with keys made from `seed`; the codec must support
  // this.
  bool stochastic = false;
  uint64_t seed = 0;

  // Returns the most bytes that a chunk of `elements` values takes on the wire.
  size_t MaxWireBytes(size_t elements) const;
  // Converts encoded bytes to the wire form. Shares the bytes if zstd is off.
  SharedBytes ToWire(const SharedBytes& encoded) const;
  // Converts bytes from the wire to encoded bytes. Fails with INVALID_ARGUMENT unless they fit a
  // chunk of `elements` values.
  absl::StatusOr<SharedBytes> FromWire(const SharedBytes& wire, size_t elements) const;
  // Like FromWire, but also fails with INVALID_ARGUMENT if the codec cannot decode the chunk. The
  // encoded bytes are written to `place` if it is given and has their length.
  absl::StatusOr<MeasuredChunk> Measured(const ByteParts& wire, size_t elements,
                                         std::optional<FreshBytes> place) const;
};

// A part of a chunk's mean: one contributor's chunk, or a relay's mean of several.
struct Piece {
  uint32_t sender;           // The sender's index in the plan.
  std::string contributors;  // A bitmap of the contributors that the piece covers.
  bool partial;              // True for a relay's mean, even if it has only one contributor.
  SharedBytes bytes;
  bool on_wire;  // True if `bytes` are in the wire form. The reducer's own chunks are not.
  // The digest of the encoded bytes, from the contributor's leaves. It is not checked if nullopt.
  std::optional<Digest> digest = std::nullopt;
  // The squared norm of the decoded values, from the leaves. It is not checked if nullopt.
  std::optional<double> squared_norm = std::nullopt;
};

// Passes each piece's encoded bytes to `take`, in order. If they do not fit or do not have the
// piece's digest and norm, passes INVALID_ARGUMENT instead. Partial means have the ChunkForm of
// means. A few pieces are unpacked and hashed at the same time.
using TakeEncoded = absl::FunctionRef<void(const Piece&, absl::StatusOr<SharedBytes>)>;
void ForEachEncoded(const ChunkForm& updates, const ChunkForm& means,
                    absl::Span<const Piece> pieces, size_t elements, TakeEncoded take);

// The identity of a mean, on which its rounding depends.
struct MeanPlace {
  uint64_t version;
  uint32_t chunk;
  bool partial;  // True for a relay's mean.
  // The PeerPart of each contributor, if rounding is stochastic.
  absl::Span<const uint64_t> parts{};
  // True for the chunk of an expert: if no owner has contributed, its mean is zeros, and the entry
  // does not step it.
  bool may_be_unowned = false;
};

// Returns how the mean at `place` is rounded: with the key ChunkKey(RoundingKey(seed, version,
// part), chunk). `part` is 0 for the mean itself and ~PeerPart of its lowest contributor for a
// relay's mean, because a header may number contributors differently from the plan and names no
// relay.
Rounding MeanRounding(const ChunkForm& form, const MeanPlace& place,
                      const std::string& contributors);

// Describes how the pieces of a plan's contributors are combined.
struct MeanTerms {
  std::vector<float> weights;            // The weight of each contributor.
  std::vector<float> scales;             // The factor of each contributor's values, from 0 to 1.
  std::optional<AggregationRule> rule;   // Nullopt means the weighted mean.
  std::shared_ptr<const Centre> centre;  // Nullptr means a centre of zeros.
};

struct Reduced {
  SharedBytes encoded;
  SharedBytes wire;
  // The squared norm of the decoded values; unset for a relay's mean.
  double squared_norm = 0;
  std::string contributors;           // A bitmap of the contributors in the mean.
  std::vector<std::string> partials;  // The bitmaps of the pieces that were partial means.
  std::vector<std::pair<uint32_t, absl::Status>>
      // The senders of the pieces that were left out because they cannot be decoded or have another
      // digest, each with the error.
      refused;
};

// Computes the mean of `pieces` and encodes it once, in the form `means`. Partial means among the
// pieces also have the form `means`; all other pieces have the form `updates`. The weighted mean is
//
//   mean = (sum over pieces of (W_p * s_p) * Decode(piece_p)) * (1 / sum of W_p)
//
// in the order of `pieces` (ascending by lowest contributor) and the arithmetic of
// optimizer/aggregation_rule.h. W_p and s_p are the contributor's weight and scale. For a partial
// mean, W_p is the fp32 sum of its contributors' weights in roster order, and s_p is 1, because the
// relay has applied the scales.
//
// The other rules are applied to each chunk separately, using only this chunk of each update. This
// is all that a rule by coordinates needs. Krum and the geometric median judge the updates by the
// values of this chunk only, so each chunk has a choice of its own and tolerates as many liars as
// the rule does. Centred clipping is one step from the mean v of the previous entry, in which the
// plan's scales c_i limit the influence of whole updates:
//
//   mean = (sum of (w_i * c_i) * x_i + rest * v) * (1 / sum of w_i)
//   rest = max(0, sum of w_i - sum of w_i * c_i)
//
// All arithmetic is in fp32, each sum is in roster order, and each operation is rounded on its own;
// if `rest` is 0, nothing is added for v.
//
// Fails if no piece is left, if there are too few pieces for the rule (FAILED_PRECONDITION), or if
// the mean is not finite; `refused` is set even then. If `out` is given, the mean is encoded into
// it; it must be long enough for any mean.
absl::Status Reduce(const ChunkForm& updates, const ChunkForm& means, const MeanPlace& place,
                    size_t elements, const MeanTerms& terms, const std::vector<Piece>& pieces,
                    std::optional<FreshBytes> out, Reduced* reduced);

}  // namespace atolld
