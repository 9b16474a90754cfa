#include "membership/privacy/privacy_budget.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/base/casts.h"
#include "absl/strings/str_format.h"

namespace atolld {
namespace {

constexpr double kClipRate = 0.2;   // of algorithm 1
constexpr double kCountShare = 20;  // the count's noise is a twentieth of a round's parties

double FloatOfBits(uint32_t bits) { return double{absl::bit_cast<float>(bits)}; }

bool HasBit(const std::string& bitmap, int i) {
  const auto at = static_cast<size_t>(i);
  return at / 8 < bitmap.size() &&
         (static_cast<unsigned char>(bitmap[at / 8]) >> (at % 8) & 1) != 0;
}

double PartiesOf(const v1::Contributor& contributor) {
  return std::max<uint32_t>(1, contributor.parties());
}

double ClipOf(const PrivacyTerms& terms, const v1::Contributor& contributor,
              const ToldUpdates& told) {
  const auto found = told.find(contributor.peer());
  const double said = found == told.end() ? 0 : FloatOfBits(found->second.clip_bits());
  return std::isfinite(said) && said > 0 ? said : terms.clip;
}

// Of the contributors in `bitmap`; nullptr: of all.
double NoiseOfSet(const PrivacyTerms& terms, const v1::EntryHeader& header, const ToldUpdates& told,
                  const std::string* bitmap) {
  double squares = 0;
  double largest = 0;
  for (int i = 0; i < header.contributors_size(); ++i) {
    if (bitmap != nullptr && !HasBit(*bitmap, i)) continue;
    const v1::Contributor& contributor = header.contributors(i);
    const double parties = PartiesOf(contributor);
    const double scale = contributor.scale_bits() == 0 ? 1 : FloatOfBits(contributor.scale_bits());
    const double weight = FloatOfBits(contributor.weight_bits());
    const double share = weight * scale / parties * ClipOf(terms, contributor, told);
    squares += parties * share * share;
    largest = std::max(largest, share);
  }
  if (largest <= 0) return std::numeric_limits<double>::infinity();  // it says nothing of anybody
  return terms.noise * std::sqrt(squares / terms.parties) / largest;
}

double PresentParties(const v1::EntryHeader& header) {
  double present = 0;
  for (const v1::Contributor& contributor : header.contributors())
    present += PartiesOf(contributor);
  return present;
}

}  // namespace

double PrivacyTerms::Deviation(double length, uint32_t behind) const {
  const double count = CountDeviation(1) * std::sqrt(parties);
  const double paid = quantile > 0 ? 1 / (4 * count * count) : 0;
  const double of_sum = 1 / std::sqrt(1 / (noise * noise) - paid);
  return of_sum * length / std::sqrt(parties * std::max<uint32_t>(1, behind));
}

double PrivacyTerms::CountDeviation(uint32_t behind) const {
  return parties / kCountShare * std::sqrt(std::max<uint32_t>(1, behind) / parties);
}

double PrivacyTerms::NoiseOf(double present) const { return noise * std::sqrt(present / parties); }

PrivacyTerms PrivacyTermsOf(const v1::PrivacySpec& spec) {
  PrivacyTerms terms;
  terms.clip = FloatOfBits(spec.clip_bits());
  terms.noise = FloatOfBits(spec.noise_bits());
  terms.quantile = FloatOfBits(spec.quantile_bits());
  if (spec.sampling_bits() != 0) terms.sampling = FloatOfBits(spec.sampling_bits());
  terms.parties = std::max<uint32_t>(1, spec.parties());
  terms.delta = spec.delta();
  terms.epsilon = spec.epsilon();
  return terms;
}

double NoiseOfEntry(const PrivacyTerms& terms, const v1::EntryHeader& header,
                    const ToldUpdates& told) {
  double least = NoiseOfSet(terms, header, told, nullptr);
  for (const v1::ContributorSet& set : header.records().sets()) {
    least = std::min(least, NoiseOfSet(terms, header, told, &set.contributors()));
  }
  if (terms.quantile > 0) least = std::min(least, terms.NoiseOf(PresentParties(header)));
  return least;
}

double NextClip(const PrivacyTerms& terms, double clip, const v1::EntryHeader& header,
                const ToldUpdates& told) {
  double within = 0;
  for (const v1::Contributor& contributor : header.contributors()) {
    const auto found = told.find(contributor.peer());
    if (found != told.end()) within += found->second.within();
  }
  const double share = within / PresentParties(header) + 0.5;
  // Noise may take it beyond what a share can be; and nobody else's word shall move it further.
  const double bounded =
      std::isfinite(share) ? std::min(1.0, std::max(0.0, share)) : terms.quantile;
  // As the wire carries it.
  return double{static_cast<float>(clip * std::exp(-kClipRate * (bounded - terms.quantile)))};
}

PrivacyBudget::PrivacyBudget(const v1::PrivacySpec& spec, uint32_t fewest)
    : terms_(PrivacyTermsOf(spec)), fewest_(std::max<uint32_t>(1, fewest)), clip_(terms_.clip) {}

void PrivacyBudget::Tell(v1::Train* train) const {
  if (terms_.quantile <= 0) return;
  train->set_clip_bits(absl::bit_cast<uint32_t>(static_cast<float>(clip_)));
}

void PrivacyBudget::Measure(const v1::EntryHeader& header, const ToldUpdates& told,
                            v1::RoundRecord* record) const {
  if (!on()) return;
  record->set_noise(NoiseOfEntry(terms_, header, told));
  if (terms_.quantile > 0) record->set_clip(NextClip(terms_, clip_, header, told));
}

void PrivacyBudget::Note(const v1::EntryHeader& header, v1::RoundRecord* record) {
  if (!on()) return;
  if (record->noise() <= 0) {  // adopted: how long its updates were allowed to be is not known
    record->set_noise(terms_.quantile > 0 ? terms_.NoiseOf(fewest_)
                                          : NoiseOfEntry(terms_, header, {}));
  }
  Remember(*record);
  record->set_epsilon(spent());
}

void PrivacyBudget::Remember(const v1::RoundRecord& record) {
  if (!on()) return;
  if (record.clip() > 0) clip_ = record.clip();
  accountant_.Add(terms_.sampling, record.noise());
  why_.reset();
}

void PrivacyBudget::NoteUnknown(uint64_t entries) {
  if (!on() || entries == 0) return;
  accountant_.Add(terms_.sampling, terms_.NoiseOf(fewest_), static_cast<double>(entries));
  why_.reset();
}

double PrivacyBudget::spent() const { return on() ? accountant_.Epsilon(terms_.delta) : 0; }

std::string PrivacyBudget::WhyEnough() const {
  if (!on() || terms_.epsilon <= 0) return "";
  if (why_) return *why_;
  const double next =
      accountant_.EpsilonAfter(terms_.sampling, terms_.NoiseOf(fewest_), 1, terms_.delta);
  why_ = "";
  if (next > terms_.epsilon) {
    why_ = absl::StrFormat(
        "epsilon is %.4g at delta %g, and another round could take it to %.4g, above the [privacy] "
        "epsilon of %g",
        spent(), terms_.delta, next, terms_.epsilon);
  }
  return *why_;
}

}  // namespace atolld
