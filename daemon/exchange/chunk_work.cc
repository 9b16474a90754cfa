#include "daemon/exchange/chunk_work.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "compression/base/bitmap.h"
#include "compression/base/check.h"
#include "compression/base/planted_bug.h"
#include "compression/base/status_macros.h"
#include "compression/zstd_frame.h"
#include "daemon/exchange/contribution.h"
#include "optimizer/aggregation_rule.h"
#include "optimizer/update_products.h"

namespace atolld {
namespace {

// The most bytes of a frame: zstd's own bound on the growth of incompressible bytes, with its
// header and checksum.
size_t ZstdBound(size_t bytes) { return bytes + (bytes >> 8) + 512; }

float WeightOf(const Piece& piece, const std::vector<float>& weights) {
  if (!piece.partial) return weights[piece.sender];
  float sum = 0.0f;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (BitAt(piece.contributors, i)) sum = sum + weights[i];
  }
  return sum;
}

// Returns the factor of a piece's values that was not applied before.
float ScaleOf(const Piece& piece, const std::vector<float>& scales) {
  if (piece.partial || Planted(PlantedBug::kScaleNotApplied)) return 1.0f;
  return scales[piece.sender];
}

// Returns the bytes, or an error if their decoded values do not have the norm in the contributor's
// leaves.
absl::StatusOr<SharedBytes> HasItsNorm(const ChunkForm& form, const Piece& piece,
                                       absl::StatusOr<SharedBytes> encoded, size_t elements) {
  if (!encoded.ok() || !piece.squared_norm) return encoded;
  ASSIGN_OR_RETURN(const double squared_norm, MeasureChunk(*form.codec, encoded->span(), elements));
  if (squared_norm != *piece.squared_norm) {
    return absl::InvalidArgumentError("it is not as long as the contributor's leaves say");
  }
  return encoded;
}

// A piece with bytes that match its contributor's leaves.
struct Term {
  const Piece* piece;
  const Codec* codec;
  SharedBytes encoded;
  float weight;  // the weight of its contributors
  float pull;    // the factor of its values in the sum
};

// Encodes the mean's values; returns the bytes used.
absl::StatusOr<size_t> EncodeValues(const ChunkForm& means, const Rounding& rounding,
                                    absl::Span<const float> mean, absl::Span<uint8_t> out) {
  return rounding.stochastic ? means.codec->EncodeStochastic(mean, rounding.key, out)
                             : means.codec->EncodeMean(mean, out);
}

float Sum(absl::Span<const float> values) {
  float sum = 0.0f;
  for (const float value : values) sum = sum + value;
  return sum;
}

// Returns true if there is a v that is not zero.
bool HasCentre(const MeanTerms& terms) {
  return terms.rule && terms.centre != nullptr && !terms.centre->chunks.empty();
}

// Sets sum = sum + rest * v for the chunk; `pulls` are the w_i * c_i.
absl::Status AddCentre(const MeanTerms& terms, uint32_t chunk, absl::Span<const float> weights,
                       absl::Span<const float> pulls, absl::Span<float> sum) {
  if (!HasCentre(terms)) return absl::OkStatus();
  const float rest = Sum(weights) - Sum(pulls);
  if (!(rest > 0) || Planted(PlantedBug::kCentreForgotten)) return absl::OkStatus();
  return Annotate(
      terms.centre->codec->DecodeAccumulate(terms.centre->chunks[chunk].span(), rest, sum),
      "the centre");
}

// Encodes the mean of the terms and the centre. Fails with INVALID_ARGUMENT also if a term cannot
// be decoded.
absl::StatusOr<size_t> EncodeMeanOf(const std::vector<Term>& terms, const ChunkForm& means,
                                    const Rounding& rounding, uint32_t chunk, size_t elements,
                                    const MeanTerms& how, absl::Span<uint8_t> out) {
  std::vector<float> weights;
  std::vector<float> pulls;
  for (const Term& term : terms) {
    weights.push_back(term.weight);
    pulls.push_back(term.pull);
  }
  ASSIGN_OR_RETURN(const float factor, MeanFactor(weights));
  // The terms in the first term's codec are summed in one pass. Only if there are relays' means can
  // other terms have another codec.
  const Codec& codec = *terms[0].codec;
  std::vector<WeightedChunk> together;
  for (const Term& term : terms) {
    if (term.codec != &codec) break;
    together.push_back({term.encoded.span(), term.pull});
  }
  const bool all = together.size() == terms.size() && !HasCentre(how);
  if (all && &codec == means.codec && !rounding.stochastic) {
    return codec.EncodeSum(together, factor, elements, out);
  }
  const std::unique_ptr<float[]> values(new float[elements]);
  const absl::Span<float> mean = absl::MakeSpan(values.get(), elements);
  RETURN_IF_ERROR(codec.DecodeSum(together, all ? factor : 1.0f, mean));
  for (size_t i = together.size(); i < terms.size(); ++i) {
    RETURN_IF_ERROR(terms[i].codec->DecodeAccumulate(terms[i].encoded.span(), terms[i].pull, mean));
  }
  if (!all) {
    RETURN_IF_ERROR(AddCentre(how, chunk, weights, pulls, mean));
    RETURN_IF_ERROR(FinishMean(weights, mean));
  }
  return EncodeValues(means, rounding, mean, out);
}

// Moves the terms that cannot be decoded to `refused`. Returns false if there are no such terms.
bool RefuseUndecodable(size_t elements, std::vector<Term>* terms, Reduced* reduced) {
  const size_t before = terms->size();
  for (auto term = terms->begin(); term != terms->end();) {
    absl::Status status = term->codec->Check(term->encoded.span(), elements);
    if (status.ok()) {
      ++term;
    } else {
      reduced->refused.emplace_back(term->piece->sender, std::move(status));
      term = terms->erase(term);
    }
  }
  return terms->size() < before;
}

void NameContributors(const std::vector<Term>& terms, size_t contributors, Reduced* reduced) {
  reduced->contributors.assign(BitmapBytes(contributors), '\0');
  reduced->partials.clear();
  for (const Term& term : terms) {
    if (!term.piece->partial) {
      SetBit(&reduced->contributors, term.piece->sender);
      continue;
    }
    UniteBits(term.piece->contributors, &reduced->contributors);
    reduced->partials.push_back(term.piece->contributors);
  }
}

// Encodes the weighted mean of the pieces and the centre.
absl::StatusOr<size_t> EncodeWeighted(const ChunkForm& updates, const ChunkForm& means,
                                      const MeanPlace& place, size_t elements, const MeanTerms& how,
                                      const std::vector<Piece>& pieces, absl::Span<uint8_t> out,
                                      Reduced* reduced) {
  std::vector<Term> terms;
  const auto take = [&](const Piece& piece, absl::StatusOr<SharedBytes> encoded) {
    if (!encoded.ok()) {
      reduced->refused.emplace_back(piece.sender, std::move(encoded).status());
      return;
    }
    const float weight = WeightOf(piece, how.weights);
    terms.push_back({&piece, piece.partial ? means.codec : updates.codec, *std::move(encoded),
                     weight, weight * ScaleOf(piece, how.scales)});
  };
  ForEachEncoded(updates, means, pieces, elements, take);
  for (;;) {
    NameContributors(terms, how.weights.size(), reduced);
    if (terms.empty() && place.may_be_unowned) {
      return means.codec->Encode(std::vector<float>(elements, 0.0f), out);
    }
    if (terms.empty()) return absl::InvalidArgumentError("nobody contributed to it");
    const Rounding rounding = MeanRounding(means, place, reduced->contributors);
    absl::StatusOr<size_t> size =
        EncodeMeanOf(terms, means, rounding, place.chunk, elements, how, out);
    if (size.ok() || !RefuseUndecodable(elements, &terms, reduced)) return size;
  }
}

// Applies `terms.rule` to the pieces, which must be single contributors' chunks in ascending order.
// Sets `mean` and the contributors to it. Fails with FAILED_PRECONDITION if there are fewer pieces
// than the rule needs.
absl::Status RobustPieces(const ChunkForm& updates, const MeanTerms& terms,
                          const std::vector<Piece>& pieces, absl::Span<float> mean,
                          Reduced* reduced) {
  const AggregationRule& rule = *terms.rule;
  std::vector<std::vector<float>> values;
  std::vector<float> weights;
  std::vector<float> scales;
  const auto add = [&](const Piece& piece, const absl::StatusOr<SharedBytes>& encoded) {
    absl::Status status = encoded.status();
    std::vector<float> decoded(mean.size());
    if (status.ok()) status = updates.codec->Decode(encoded->span(), absl::MakeSpan(decoded));
    if (!status.ok()) {
      reduced->refused.emplace_back(piece.sender, std::move(status));
      return;
    }
    values.push_back(std::move(decoded));
    weights.push_back(terms.weights[piece.sender]);
    scales.push_back(terms.scales[piece.sender]);
    UniteBits(piece.contributors, &reduced->contributors);
  };
  ForEachEncoded(updates, updates, pieces, mean.size(), add);
  if (values.size() < rule.LeastContributors()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the rule ", rule.settings().rule, " with faulty = ", rule.settings().faulty, " takes ",
        rule.LeastContributors(), " updates, ", values.size(), " are here"));
  }
  const std::vector<absl::Span<const float>> rows(values.begin(), values.end());
  UpdateProducts products(rule.needs(), rows.size());
  if (rule.needs() != UpdateProducts::Kind::kNone) {
    RETURN_IF_ERROR(products.AddChunk(rows));
    products = products.Scaled(std::vector<double>(scales.begin(), scales.end()));
  }
  ASSIGN_OR_RETURN(AggregationPlan plan, rule.Plan(weights, products));
  plan.scales = std::move(scales);
  return rule.Combine(plan, rows, {}, mean);
}

// Encodes the mean that the rule makes of the pieces.
absl::StatusOr<size_t> EncodeRobust(const ChunkForm& updates, const ChunkForm& means,
                                    const MeanPlace& place, size_t elements, const MeanTerms& how,
                                    const std::vector<Piece>& pieces, absl::Span<uint8_t> out,
                                    Reduced* reduced) {
  reduced->contributors.assign(BitmapBytes(how.weights.size()), '\0');
  const std::unique_ptr<float[]> values(new float[elements]);
  const absl::Span<float> mean = absl::MakeSpan(values.get(), elements);
  RETURN_IF_ERROR(RobustPieces(updates, how, pieces, mean, reduced));
  return EncodeValues(means, MeanRounding(means, place, reduced->contributors), mean, out);
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

absl::StatusOr<MeasuredChunk> ChunkForm::Measured(const ByteParts& wire, size_t elements,
                                                  std::optional<FreshBytes> place) const {
  MeasuredChunk chunk;
  if (place && !zstd && place->span().size() == wire.size()) {
    wire.CopyTo(place->span());
    chunk.encoded = std::move(*place).Share(wire.size());
  } else {
    ASSIGN_OR_RETURN(chunk.encoded, FromWire(wire.Copy(), elements));
    if (place && place->span().size() == chunk.encoded.size()) {
      ByteParts(chunk.encoded).CopyTo(place->span());
      chunk.encoded = std::move(*place).Share(chunk.encoded.size());
    }
  }
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
                    std::optional<FreshBytes> out, Reduced* reduced) {
  if (!out) out.emplace(means.codec->MaxEncodedBytes(elements));
  const bool weighted = !terms.rule || terms.rule->has_centre();
  ASSIGN_OR_RETURN(const size_t size, weighted ? EncodeWeighted(updates, means, place, elements,
                                                                terms, pieces, out->span(), reduced)
                                               : EncodeRobust(updates, means, place, elements,
                                                              terms, pieces, out->span(), reduced));
  reduced->encoded = std::move(*out).Share(size);
  reduced->wire = means.ToWire(reduced->encoded);
  if (place.partial) return absl::OkStatus();
  ASSIGN_OR_RETURN(reduced->squared_norm,
                   MeasureChunk(*means.codec, reduced->encoded.span(), elements));
  return absl::OkStatus();
}

}  // namespace atolld
