#include "daemon/exchange/chunk_work.h"

#include <memory>
#include <utility>

#include "absl/types/span.h"
#include "compression/zstd_frame.h"
#include "daemon/exchange/contribution.h"
#include "daemon/exchange/robust_mean.h"
#include "daemon/status_macros.h"
#include "membership/bitmap.h"
#include "membership/planted_bug.h"
#include "optimizer/weighted_mean.h"

namespace atolld {
namespace {

// zstd's own bound on what incompressible bytes grow by, with its header and checksum.
size_t ZstdBound(size_t bytes) { return bytes + (bytes >> 8) + 512; }

float WeightOf(const Piece& piece, const std::vector<float>& weights) {
  float sum = 0.0f;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (BitAt(piece.contributors, i)) sum = sum + weights[i];
  }
  return sum;
}

// What its values are multiplied by, as far as it was not done before.
float ScaleOf(const Piece& piece, const std::vector<float>& scales) {
  if (piece.partial || Planted(PlantedBug::kScaleNotApplied)) return 1.0f;
  return scales[piece.sender];
}

// The weighted mean of the pieces and the centre.
absl::Status WeightedPieces(const ChunkForm& updates, const ChunkForm& means, uint32_t chunk,
                            const MeanTerms& terms, const std::vector<Piece>& pieces,
                            absl::Span<float> sum, Reduced* reduced) {
  BeginMean(sum);
  std::vector<float> used;
  std::vector<float> pulls;
  for (const Piece& piece : pieces) {
    const float weight = WeightOf(piece, terms.weights);
    const float pull = weight * ScaleOf(piece, terms.scales);
    const ChunkForm& form = piece.partial ? means : updates;
    const absl::StatusOr<SharedBytes> encoded = EncodedOf(form, piece, sum.size());
    absl::Status status = encoded.status();
    if (status.ok()) status = form.codec->DecodeAccumulate(encoded->span(), pull, sum);
    if (!status.ok()) {
      reduced->refused.emplace_back(piece.sender, std::move(status));
      continue;
    }
    used.push_back(weight);
    pulls.push_back(pull);
    UniteBits(piece.contributors, &reduced->contributors);
    if (piece.partial) reduced->partials.push_back(piece.contributors);
  }
  if (used.empty()) return absl::InvalidArgumentError("nobody contributed to it");
  RETURN_IF_ERROR(AddCentre(terms, chunk, used, pulls, sum));
  return FinishMean(used, sum);
}

}  // namespace

size_t ChunkForm::MaxWireBytes(size_t elements) const {
  const size_t encoded = codec->MaxEncodedBytes(elements);
  return zstd ? ZstdBound(encoded) : encoded;
}

SharedBytes ChunkForm::ToWire(const SharedBytes& encoded) const {
  if (!zstd) return encoded;
  absl::StatusOr<std::string> compressed = ZstdCompress(encoded.span());
  CHECK_OK(compressed.status());
  return SharedBytes(*std::move(compressed));
}

absl::StatusOr<SharedBytes> ChunkForm::FromWire(const SharedBytes& wire, size_t elements) const {
  const size_t most = codec->MaxEncodedBytes(elements);
  if (zstd) {
    ASSIGN_OR_RETURN(std::string encoded, ZstdDecompress(wire.span(), most));
    return SharedBytes(std::move(encoded));
  }
  if (wire.size() > most) {
    return absl::InvalidArgumentError(
        absl::StrCat(wire.size(), " bytes, ", elements, " values take at most ", most));
  }
  return wire;
}

absl::StatusOr<SharedBytes> ChunkForm::Verified(const SharedBytes& wire, size_t elements) const {
  ASSIGN_OR_RETURN(SharedBytes encoded, FromWire(wire, elements));
  RETURN_IF_ERROR(codec->Check(encoded.span(), elements));
  return encoded;
}

absl::StatusOr<SharedBytes> EncodedOf(const ChunkForm& form, const Piece& piece, size_t elements) {
  absl::StatusOr<SharedBytes> encoded = piece.bytes;
  if (piece.on_wire) encoded = form.FromWire(piece.bytes, elements);
  if (encoded.ok() && piece.digest && Sha256(encoded->span()) != *piece.digest) {
    return absl::InvalidArgumentError("its bytes are not those of the contributor's leaves");
  }
  if (!encoded.ok() || !piece.squared_norm) return encoded;
  const std::unique_ptr<float[]> values(new float[elements]);
  ASSIGN_OR_RETURN(const double squared_norm,
                   MeasureChunk(*form.codec, encoded->span(), {values.get(), elements}));
  if (squared_norm != *piece.squared_norm) {
    return absl::InvalidArgumentError("it is not as long as the contributor's leaves say");
  }
  return encoded;
}

uint64_t PeerPart(absl::string_view peer) {
  const Digest digest = Sha256(BytesOf(peer));
  uint64_t part = 0;
  for (size_t i = 0; i < sizeof(part); ++i) part |= static_cast<uint64_t>(digest[i]) << (8 * i);
  return part;
}

Rounding MeanRounding(const ChunkForm& form, const MeanPlace& place,
                      const std::string& contributors) {
  if (!form.stochastic) return Rounding();
  uint64_t part = 0;
  if (place.partial) {
    size_t lowest = 0;
    while (lowest + 1 < place.parts.size() && !BitAt(contributors, lowest)) ++lowest;
    part = ~place.parts[lowest];
  }
  return {true, ChunkKey(RoundingKey(form.seed, place.version, part), place.chunk)};
}

absl::Status Reduce(const ChunkForm& updates, const ChunkForm& means, const MeanPlace& place,
                    size_t elements, const MeanTerms& terms, const std::vector<Piece>& pieces,
                    Reduced* reduced) {
  const std::unique_ptr<float[]> values(new float[elements]);
  const absl::Span<float> mean = absl::MakeSpan(values.get(), elements);
  reduced->contributors.assign(BitmapBytes(terms.weights.size()), '\0');
  const bool weighted = !terms.rule || terms.rule->has_centre();
  RETURN_IF_ERROR(weighted
                      ? WeightedPieces(updates, means, place.chunk, terms, pieces, mean, reduced)
                      : RobustPieces(updates, terms, pieces, mean, reduced));
  const Rounding rounding = MeanRounding(means, place, reduced->contributors);
  FreshBytes out(means.codec->MaxEncodedBytes(elements));
  ASSIGN_OR_RETURN(const size_t size,
                   rounding.stochastic
                       ? means.codec->EncodeStochastic(mean, rounding.key, out.span())
                       : means.codec->EncodeMean(mean, out.span()));
  reduced->encoded = std::move(out).Share(size);
  reduced->wire = means.ToWire(reduced->encoded);
  return absl::OkStatus();
}

}  // namespace atolld
