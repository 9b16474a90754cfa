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
#include "compression/codec.h"
#include "daemon/bytes.h"

namespace atolld {

// Bitmaps of contributors: bit i is byte i / 8, bit i % 8.
bool BitAt(absl::string_view bitmap, size_t bit);
void SetBitAt(size_t bit, std::string* bitmap);
// Of the right length for `bits`, at least one bit set, none beyond.
bool IsContributorSet(absl::string_view bitmap, size_t bits);

// How encoded chunks travel.
struct ChunkForm {
  const Codec* codec;
  bool zstd;

  // The most bytes that a chunk of so many values takes on the wire.
  size_t MaxWireBytes(size_t elements) const;
  // Encoded -> wire. Shares the bytes when zstd is off.
  SharedBytes ToWire(const SharedBytes& encoded) const;
  // Wire -> encoded; INVALID_ARGUMENT unless they fit a chunk of so many values.
  absl::StatusOr<SharedBytes> FromWire(const SharedBytes& wire, size_t elements) const;
  // As FromWire, and the codec can decode it.
  absl::StatusOr<SharedBytes> Verified(const SharedBytes& wire, size_t elements) const;
};

// One contributor's chunk, as it arrived.
struct Piece {
  uint32_t contributor;  // index in the plan
  SharedBytes bytes;
  bool on_wire;  // in the form of the wire; the reducer's own are not
};

struct Reduced {
  SharedBytes encoded;
  SharedBytes wire;
  std::string contributors;  // bitmap: whose pieces it is the mean of
  std::vector<std::pair<uint32_t, absl::Status>>
      refused;  // pieces that could not be decoded, left out
};

// The weighted mean of `pieces` (in roster order), encoded once. Pieces that cannot be decoded are
// left out and named. The outer Status: no piece was left, or the mean is not finite; `refused`
// tells of pieces even then.
absl::Status Reduce(const ChunkForm& form, size_t elements, const std::vector<float>& weights,
                    const std::vector<Piece>& pieces, Reduced* reduced);

}  // namespace atolld
