#include "membership/run/gradient_noise.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/base/casts.h"
#include "absl/strings/str_cat.h"
#include "compression/base/bitmap.h"
#include "membership/history/agreement.h"
#include "optimizer/robust_shares.h"

namespace atolld {
namespace {

// Returns false for codecs that decode to a substantially different vector. The part that they
// leave out or round away is as large as the noise that is measured.
bool KeepsLength(const std::string& codec) { return codec != "topk" && codec != "int2"; }

std::string WhyNever(const v1::ExchangeSpec& exchange) {
  const std::string& rule = exchange.aggregation();
  if (!rule.empty() && rule != "mean") {
    return absl::StrCat("rule ", rule, " is not a mean");
  }
  for (const std::string& codec :
       {exchange.codec(), exchange.slow_codec(), exchange.upper_codec()}) {
    if (!KeepsLength(codec)) return absl::StrCat("codec ", codec, " changes updates' lengths");
  }
  return "";
}

// Returns true if every chunk is the mean of all contributors.
bool Whole(const v1::Vote& agreement, const std::vector<bool>& included) {
  const auto all = [&](const std::string& bitmap) {
    for (size_t i = 0; i < included.size(); ++i) {
      if (included[i] && !BitAt(bitmap, i)) return false;
    }
    return true;
  };
  const auto& sets = agreement.records().sets();
  return std::all_of(sets.begin(), sets.end(),
                     [&](const v1::ContributorSet& set) { return all(set.contributors()); });
}

}  // namespace

double ToldSquaredMean(const v1::Vote& agreement, const std::map<std::string, v1::Vote>& votes) {
  std::vector<double> told;
  for (const auto& [peer, vote] : votes) {
    if (vote.payload_digest() != agreement.payload_digest()) continue;
    const double squared = absl::bit_cast<double>(vote.squared_mean_bits());
    if (std::isfinite(squared) && squared > 0) told.push_back(squared);
  }
  return LowerMedian(std::move(told));
}

GradientNoise::GradientNoise(const v1::ExchangeSpec& exchange,
                             absl::Span<const v1::RoundRecord> rounds,
                             const v1::PrivacySpec& privacy, bool experts)
    : never_(experts                    ? "updates cover different parts"
             : privacy.masked()         ? "masks hide the lengths of updates"
             : privacy.clip_bits() != 0 ? "the noise of differential privacy covers it"
                                        : WhyNever(exchange)) {
  for (const v1::RoundRecord& record : rounds) Note(record);
}

void GradientNoise::Note(const v1::RoundRecord& record) {
  if (record.squared_gradient() == 0 && record.gradient_noise() == 0) return;
  scale_.Note({record.squared_gradient(), record.gradient_noise()});
  round_tokens_ = record.tokens();
}

void GradientNoise::NoteCommit(const v1::Plan& plan, const v1::Vote& agreement,
                               const std::map<std::string, v1::Vote>& votes,
                               v1::RoundRecord* record) {
  const std::vector<bool> included = Included(plan, agreement);
  std::vector<NoiseSample> samples;
  for (size_t i = 0; i < included.size(); ++i) {
    if (!included[i]) continue;
    const v1::PlanMember& member = plan.contributors(static_cast<int>(i));
    const double scale =
        member.scale_bits() == 0 ? 1 : double{absl::bit_cast<float>(member.scale_bits())};
    NoiseSample& sample = samples.emplace_back();
    sample.weight = double{absl::bit_cast<float>(member.weight_bits())};
    sample.squared_norm = scale * scale * absl::bit_cast<double>(member.squared_norm_bits());
    sample.tokens = static_cast<double>(member.tokens());
    // More steps make a longer update, and the scale undoes this.
    sample.length = scale * static_cast<double>(member.steps());
  }
  const double squared_mean = ToldSquaredMean(agreement, votes);
  if (never_.empty() && squared_mean > 0 && Whole(agreement, included)) {
    const std::optional<NoiseEstimate> estimate = EstimateNoise(samples, squared_mean);
    if (estimate) {
      record->set_squared_gradient(estimate->squared_gradient);
      record->set_gradient_noise(estimate->noise);
    }
  }
  Note(*record);
  record->set_noise_scale(scale_.tokens().value_or(0));
}

v1::NoiseStatus GradientNoise::Status() const {
  v1::NoiseStatus status;
  status.set_rounds(scale_.rounds());
  status.set_round_tokens(round_tokens_);
  status.set_tokens(scale_.tokens().value_or(0));
  if (status.tokens() > 0) return status;
  if (!never_.empty()) {
    status.set_unknown(never_);
  } else if (scale_.rounds() == 0) {
    status.set_unknown("no round of two whole updates yet");
  } else if (!scale_.gradient_seen()) {
    status.set_unknown("too little in common so far");
  } else {
    status.set_unknown("updates differ too little so far");
  }
  return status;
}

}  // namespace atolld
