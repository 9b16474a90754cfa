#include "daemon/exchange/robust_mean.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compression/base/planted_bug.h"
#include "compression/base/status_macros.h"
#include "membership/history/bitmap.h"
#include "optimizer/update_products.h"

namespace atolld {
namespace {

float Sum(absl::Span<const float> values) {
  float sum = 0.0f;
  for (const float value : values) sum = sum + value;
  return sum;
}

}  // namespace

bool HasCentre(const MeanTerms& terms) {
  return terms.rule && terms.centre != nullptr && !terms.centre->chunks.empty();
}

absl::Status AddCentre(const MeanTerms& terms, uint32_t chunk, absl::Span<const float> weights,
                       absl::Span<const float> pulls, absl::Span<float> sum) {
  if (!HasCentre(terms)) return absl::OkStatus();
  const float rest = Sum(weights) - Sum(pulls);
  if (!(rest > 0) || Planted(PlantedBug::kCentreForgotten)) return absl::OkStatus();
  return Annotate(
      terms.centre->codec->DecodeAccumulate(terms.centre->chunks[chunk].span(), rest, sum),
      "the centre");
}

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

}  // namespace atolld
