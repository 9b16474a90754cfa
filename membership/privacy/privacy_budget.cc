#include "membership/privacy/privacy_budget.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/base/casts.h"
#include "absl/strings/str_format.h"
#include "compression/base/planted_bug.h"

namespace atolld {
namespace {

constexpr double kClipRate = 0.2;  // the rate of algorithm 1
// The greatest draw of noise, rounded up (update_noise.h).
constexpr double kMostDeviations = 8.58;
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

// Returns the noise of the contributors in `bitmap`, or of all if it is nullptr.
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
  // It reveals nothing about any party.
  if (largest <= 0) return std::numeric_limits<double>::infinity();
  return terms.noise * std::sqrt(squares / terms.parties) / largest;
}

// A peer reports its own number of parties; more than those of a full round never count.
double PresentParties(const PrivacyTerms& terms, const v1::EntryHeader& header) {
  double present = 0;
  for (const v1::Contributor& contributor : header.contributors())
    present += std::min(PartiesOf(contributor), terms.parties);
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

double PrivacyTerms::Bounded(double within, uint32_t behind) const {
  if (!std::isfinite(within)) return 0;
  const double own = std::min<double>(std::max<uint32_t>(1, behind), parties);
  const double most = own / 2 + kMostDeviations * CountDeviation(static_cast<uint32_t>(own));
  return std::min(most, std::max(-most, within));
}

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
  if (terms.quantile > 0) least = std::min(least, terms.NoiseOf(PresentParties(terms, header)));
  return least;
}

double NextClip(const PrivacyTerms& terms, double clip, const v1::EntryHeader& header,
                const ToldUpdates& told) {
  double within = 0;
  for (const v1::Contributor& contributor : header.contributors()) {
    const auto found = told.find(contributor.peer());
    if (found != told.end()) within += found->second.within();
  }
  const double share = within / PresentParties(terms, header) + 0.5;
  // Noise may take it outside the range of a share.
  const double bounded =
      std::isfinite(share) ? std::min(1.0, std::max(0.0, share)) : terms.quantile;
  // The clip is rounded as the wire carries it.
  return double{static_cast<float>(clip * std::exp(-kClipRate * (bounded - terms.quantile)))};
}

PrivacyBudget::PrivacyBudget(const v1::PrivacySpec& spec, uint32_t fewest)
    : terms_(PrivacyTermsOf(spec)),
      fewest_(std::max<uint32_t>(1, fewest)),
      clip_(terms_.clip),
      clips_(terms_.clip) {}

void PrivacyBudget::Tell(v1::Train* train) {
  if (terms_.quantile <= 0) return;
  train->set_clip_bits(absl::bit_cast<uint32_t>(static_cast<float>(clip_)));
  clips_.NoteTrain(train->number(), clip_);
}

// Replaces the clips and counts that peers claim by what this process has told them, and by bounded
// counts.
ToldUpdates PrivacyBudget::Sound(const v1::EntryHeader& header, const ToldUpdates& told) const {
  if (Planted(PlantedBug::kClipBelieved)) return told;
  ToldUpdates sound;
  for (const v1::Contributor& contributor : header.contributors()) {
    const auto found = told.find(contributor.peer());
    if (found == told.end()) continue;
    v1::Ready& ready = sound[contributor.peer()];
    ready.set_clip_bits(absl::bit_cast<uint32_t>(static_cast<float>(clips_.Of(found->second))));
    ready.set_within(terms_.Bounded(found->second.within(), contributor.parties()));
  }
  return sound;
}

void PrivacyBudget::Measure(const v1::EntryHeader& header, const ToldUpdates& told,
                            v1::RoundRecord* record) const {
  if (!on()) return;
  const ToldUpdates sound = Sound(header, told);
  record->set_noise(NoiseOfEntry(terms_, header, sound));
  if (terms_.quantile > 0) record->set_clip(NextClip(terms_, clip_, header, sound));
}

void PrivacyBudget::Note(const v1::EntryHeader& header, v1::RoundRecord* record) {
  if (!on()) return;
  if (record->noise() <= 0) {  // adopted: the allowed length of its updates is unknown
    const double noise = NoiseOfEntry(terms_, header, {});
    record->set_noise(terms_.quantile > 0 ? std::min(noise, terms_.NoiseOf(fewest_)) : noise);
  }
  Remember(*record);
  record->set_epsilon(spent());
}

void PrivacyBudget::Remember(const v1::RoundRecord& record) {
  if (!on()) return;
  if (record.clip() > 0) {
    clip_ = record.clip();
    clips_.NoteVersion(record.version() + 1, clip_);
  }
  // Everybody can see which peers were drawn, so that hides nobody.
  const double drawn = Planted(PlantedBug::kDrawsHide) && record.contributors() < terms_.parties
                           ? record.contributors() / terms_.parties
                           : 1;
  accountant_.Add(terms_.sampling, record.noise(), drawn);
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
