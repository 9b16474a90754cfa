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

// The bytes, unless they do not decode to the length that the contributor's leaves say.
absl::StatusOr<SharedBytes> HasItsNorm(const ChunkForm& form, const Piece& piece,
                                       absl::StatusOr<SharedBytes> encoded, size_t elements) {
  if (!encoded.ok() || !piece.squared_norm) return encoded;
  ASSIGN_OR_RETURN(const double squared_norm, MeasureChunk(*form.codec, encoded->span(), elements));
  if (squared_norm != *piece.squared_norm) {
    return absl::InvalidArgumentError("it is not as long as the contributor's leaves say");
  }
  return encoded;
}

// The weighted mean of the pieces and the centre.
absl::Status WeightedPieces(const ChunkForm& updates, const ChunkForm& means, uint32_t chunk,
                            const MeanTerms& terms, const std::vector<Piece>& pieces,
                            absl::Span<float> sum, Reduced* reduced) {
  BeginMean(sum);
  std::vector<float> used;
  std::vector<float> pulls;
  const auto add = [&](const Piece& piece, const absl::StatusOr<SharedBytes>& encoded) {
    const float weight = WeightOf(piece, terms.weights);
    const float pull = weight * ScaleOf(piece, terms.scales);
    const ChunkForm& form = piece.partial ? means : updates;
    absl::Status status = encoded.status();
    if (status.ok()) status = form.codec->DecodeAccumulate(encoded->span(), pull, sum);
    if (!status.ok()) {
      reduced->refused.emplace_back(piece.sender, std::move(status));
      return;
    }
    used.push_back(weight);
    pulls.push_back(pull);
    UniteBits(piece.contributors, &reduced->contributors);
    if (piece.partial) reduced->partials.push_back(piece.contributors);
  };
  ForEachEncoded(updates, means, pieces, sum.size(), add);
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

absl::StatusOr<MeasuredChunk> ChunkForm::Measured(const SharedBytes& wire, size_t elements) const {
  MeasuredChunk chunk;
  ASSIGN_OR_RETURN(chunk.encoded, FromWire(wire, elements));
  ASSIGN_OR_RETURN(chunk.squared_norm, MeasureChunk(*codec, chunk.encoded.span(), elements));
  return chunk;
}

void ForEachEncoded(const ChunkForm& updates, const ChunkForm& means,
                    absl::Span<const Piece> pieces, size_t elements, TakeEncoded take) {
  for (size_t begin = 0; begin < pieces.size(); begin += Sha256Together()) {
    const absl::Span<const Piece> group = pieces.subspan(begin, Sha256Together());
    std::vector<absl::StatusOr<SharedBytes>> encoded;
    std::vector<absl::Span<const uint8_t>> hashed;
    for (const Piece& piece : group) {
      const ChunkForm& form = piece.partial ? means : updates;
      encoded.push_back(piece.on_wire ? form.FromWire(piece.bytes, elements) : piece.bytes);
      if (encoded.back().ok() && piece.digest) hashed.push_back(encoded.back()->span());
    }
    const std::vector<Digest> digests = Sha256Each(hashed);
    auto digest = digests.begin();
    for (size_t i = 0; i < group.size(); ++i) {
      if (encoded[i].ok() && group[i].digest && *digest++ != *group[i].digest) {
        encoded[i] =
            absl::InvalidArgumentError("its bytes are not those of the contributor's leaves");
      }
      const ChunkForm& form = group[i].partial ? means : updates;
      take(group[i], HasItsNorm(form, group[i], std::move(encoded[i]), elements));
    }
  }
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
  if (place.partial) return absl::OkStatus();
  ASSIGN_OR_RETURN(reduced->squared_norm,
                   MeasureChunk(*means.codec, reduced->encoded.span(), elements));
  return absl::OkStatus();
}

}  // namespace atolld
