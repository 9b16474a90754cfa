#include "daemon/exchange/masked_update.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "compression/base/bitmap.h"
#include "compression/base/check.h"
#include "compression/base/planted_bug.h"
#include "compression/base/status_macros.h"
#include "compression/ring_sum_codec.h"
#include "membership/history/mean_records.h"

namespace atolld {
namespace {

SharedBytes Packed(const RingForm& ring, absl::Span<const uint32_t> codes) {
  std::vector<uint8_t> bytes(codes.size() * ring.bytes);
  PackRing(ring, codes, absl::MakeSpan(bytes));
  return SharedBytes(std::move(bytes));
}

}  // namespace

absl::Span<const int16_t> StepsOfChunk(const ChunkGrid& grid, const RingSteps& steps,
                                       uint32_t chunk) {
  // The length of every chunk except the last is a multiple of a block's length.
  const uint64_t first = grid.Offset(chunk) / kRingBlockElements;
  const uint64_t blocks = (grid.Elements(chunk) + kRingBlockElements - 1) / kRingBlockElements;
  return absl::MakeConstSpan(steps).subspan(first, blocks);
}

absl::StatusOr<MaskedContribution> MaskContribution(const ChunkGrid& grid, const MaskedTerms& terms,
                                                    const RingSteps& steps,
                                                    absl::Span<const float> values, float weight,
                                                    const Rounding& rounding,
                                                    const MaskParty& party) {
  if (values.size() != grid.elements()) {
    return absl::InvalidArgumentError(
        absl::StrCat(values.size(), " values for a grid of ", grid.elements()));
  }
  MaskedContribution made;
  std::vector<uint32_t> codes;
  for (uint32_t c = 0; c < grid.chunks(); ++c) {
    codes.resize(grid.Elements(c));
    Rounding of_chunk = rounding;
    of_chunk.key = ChunkKey(rounding.key, c);
    const absl::StatusOr<uint64_t> cut = EncodeRing(
        terms.ring, StepsOfChunk(grid, steps, c), values.subspan(grid.Offset(c), grid.Elements(c)),
        RingWeight(terms, weight), of_chunk, absl::MakeSpan(codes));
    if (!cut.ok()) return Annotate(cut.status(), absl::StrCat("chunk ", c));
    made.cut += *cut;
    RETURN_IF_ERROR(party.Mask(terms.ring, c, absl::MakeSpan(codes)));
    made.contribution.chunks.push_back(Packed(terms.ring, codes));
    made.contribution.digests.push_back(Sha256(made.contribution.chunks.back().span()));
  }
  SetNorms(std::vector<ChunkNorms>(grid.chunks()), &made.contribution);
  return made;
}

v1::MaskedSum MaskedSumOf(const ExchangePlan& plan, const ExchangeOutcome& outcome) {
  const std::vector<ExchangePlan::Contributor>& contributors = plan.contributors();
  std::vector<bool> in_all(contributors.size(), true);
  std::vector<bool> in_some(contributors.size(), false);
  for (const v1::ShardRecord& shard : outcome.records.shards()) {
    ForEachRun(outcome.records, shard, [&](uint32_t, uint32_t, const v1::ContributorSet& set) {
      for (size_t i = 0; i < contributors.size(); ++i) {
        const bool is_in = BitAt(set.contributors(), i);
        in_all[i] = in_all[i] && is_in;
        in_some[i] = in_some[i] || is_in;
      }
    });
  }
  v1::MaskedSum sum;
  sum.set_revision(outcome.revision);
  sum.set_payload_digest(ToBytes(outcome.payload_digest));
  for (size_t i = 0; i < contributors.size(); ++i) {
    if (in_all[i] && in_some[i]) sum.add_contributors(contributors[i].peer);
    if (in_all[i] != in_some[i]) sum.set_ragged(true);
  }
  return sum;
}

std::vector<float> PlannedWeights(const ExchangePlan& plan,
                                  absl::Span<const std::string> contributors) {
  std::vector<float> weights;
  for (const std::string& peer : contributors) {
    const std::optional<uint32_t> index = plan.IndexOf(peer);
    weights.push_back(index ? plan.contributors()[*index].weight : 0);
  }
  return weights;
}

absl::StatusOr<UnmaskedMean> UnmaskMean(const ChunkGrid& grid, const MaskedTerms& terms,
                                        const RingSteps& steps, const SharedBytes& masked,
                                        absl::Span<const LeftMask> masks,
                                        absl::Span<const float> weights, const ChunkForm& means,
                                        uint64_t version) {
  ASSIGN_OR_RETURN(const std::vector<SharedBytes> sums,
                   SplitPayload(grid, MaskedSumCodec(), masked));
  const double weight = Planted(PlantedBug::kMaskedWeightsIgnored)
                            ? static_cast<double>(weights.size())
                            : RingWeightSum(terms, weights);
  UnmaskedMean made;
  std::vector<SharedBytes> chunks;
  for (uint32_t c = 0; c < grid.chunks(); ++c) {
    std::vector<uint32_t> sum(grid.Elements(c));
    std::vector<float> mean(sum.size());
    RETURN_IF_ERROR(UnpackRing(terms.ring, sums[c].span(), absl::MakeSpan(sum)));
    RemoveMasks(terms.ring, masks, c, absl::MakeSpan(sum));
    RETURN_IF_ERROR(
        DecodeRing(terms.ring, StepsOfChunk(grid, steps, c), sum, weight, absl::MakeSpan(mean)));
    const Rounding rounding = MeanRounding(means, MeanPlace{version, c, false}, "");
    std::vector<uint8_t> encoded(means.codec->MaxEncodedBytes(mean.size()));
    const absl::Span<uint8_t> out = absl::MakeSpan(encoded);
    ASSIGN_OR_RETURN(const size_t size, rounding.stochastic
                                            ? means.codec->EncodeStochastic(mean, rounding.key, out)
                                            : means.codec->EncodeMean(mean, out));
    encoded.resize(size);
    ASSIGN_OR_RETURN(const double norm, MeasureChunk(*means.codec, encoded, mean.size()));
    made.squared_mean = made.squared_mean + norm;
    chunks.emplace_back(std::move(encoded));
  }
  made.payload = JoinPayload(chunks);
  made.digest = TreeDigest(made.payload.span());
  return made;
}

}  // namespace atolld
