#include "daemon/config/privacy_rules.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compression/base/status_macros.h"
#include "membership/privacy/privacy_budget.h"

namespace atolld {
namespace {

// Shown where the one of the two was said that can be changed.
absl::Status RefusePrivacy(const ConfigPlaces& places, const std::string& section,
                           const std::string& key, const std::string& what) {
  const std::string& place =
      places.Has(section, key) ? places.Of(section, key) : places.Of("privacy", "clip");
  return absl::InvalidArgumentError(absl::StrCat(place, ": [", section, "] ", key, " ", what));
}

// What has no meaning without a clip, or lacks what a clip needs.
absl::Status CheckNoise(const Config& c, const ConfigPlaces& places) {
  const PrivacyConfig& p = c.privacy;
  if (p.clip == 0) {
    const char* const without = p.noise > 0      ? "noise"
                                : p.quantile > 0 ? "quantile"
                                : p.epsilon > 0  ? "epsilon"
                                                 : nullptr;
    if (without == nullptr) return absl::OkStatus();
    return RefusePrivacy(places, "privacy", without,
                         "needs [privacy] clip above 0: without a bound on an update's length no "
                         "noise hides it");
  }
  if (p.noise == 0) {
    return RefusePrivacy(places, "privacy", "noise",
                         "must be above 0 with [privacy] clip: a clip alone hides nothing");
  }
  if (p.place != "party") {
    return RefusePrivacy(places, "privacy", "place",
                         "must be 'party': whoever audits or votes on a mean makes it anew, and "
                         "could not tell a reducer's noise from a lie");
  }
  if (p.parties == 0) {
    return RefusePrivacy(places, "privacy", "parties", "must be above 0 with [privacy] clip");
  }
  if (p.sampling == 0) {
    return RefusePrivacy(places, "privacy", "sampling", "must be above 0 with [privacy] clip");
  }
  if (p.quantile > 0 && p.parties <= 10 * p.noise) {
    return RefusePrivacy(
        places, "privacy", "quantile",
        absl::StrFormat("needs more than 10 x noise parties in a round, above %g, not %d: the "
                        "count of short updates could not be hidden for what noise pays",
                        10 * p.noise, p.parties));
  }
  return absl::OkStatus();
}

// What would let a party change the mean by more than its clip.
absl::Status CheckSensitivity(const Config& c, const ConfigPlaces& places) {
  if (!c.data.is_private && c.model.kind != kStubKind) {
    return RefusePrivacy(places, "data", "private",
                         "must be true with [privacy] clip: a party's data is what is protected, "
                         "and shared data is nobody's");
  }
  if (c.exchange.error_feedback) {
    return RefusePrivacy(places, "exchange", "error_feedback",
                         "must be false with [privacy] clip: what one update left out would come "
                         "back in later ones, beyond their clip");
  }
  if (c.exchange.aggregation != "mean") {
    return RefusePrivacy(
        places, "exchange", "aggregation",
        absl::StrCat("must be 'mean' with [privacy] clip: of '", c.exchange.aggregation,
                     "' nobody knows how far one update can move it"));
  }
  if (c.exchange.clip != 0) {
    return RefusePrivacy(places, "exchange", "clip",
                         "must be 0 with [privacy] clip: updates have one length already, and "
                         "scaling some of them down would take noise away from the others");
  }
  if (c.federation.weights != "equal") {
    return RefusePrivacy(
        places, "federation", "weights",
        absl::StrCat("must be 'equal' with [privacy] clip: by '", c.federation.weights,
                     "' a party's weight tells of its data, and a heavy one's "
                     "update is hidden less"));
  }
  if (c.federation.normalised) {
    return RefusePrivacy(places, "federation", "normalised",
                         "must be false with [privacy] clip: it makes some updates longer than "
                         "the clip");
  }
  if (c.inner.control_variates) {
    return RefusePrivacy(places, "inner", "control_variates",
                         "must be false with [privacy] clip: control variates are sent without "
                         "noise");
  }
  return absl::OkStatus();
}

// A budget that not even the first round may spend would seal the run at version 0.
absl::Status CheckBudget(const Config& c, const ConfigPlaces& places) {
  if (c.privacy.epsilon == 0) return absl::OkStatus();
  const uint32_t quorum = c.run.quorum == 0 ? c.run.peers / 2 + 1 : c.run.quorum;
  const PrivacyTerms terms = PrivacyTermsOf(MakeRunSpec(c).privacy());
  const double first =
      PrivacyAccountant().EpsilonAfter(terms.sampling, terms.NoiseOf(quorum), 1, terms.delta);
  if (first <= c.privacy.epsilon) return absl::OkStatus();
  return RefusePrivacy(
      places, "privacy", "epsilon",
      absl::StrFormat("must be at least %.3g, what one round with a quorum of %d spends at noise = "
                      "%g and delta = %g, not %g",
                      first, quorum, c.privacy.noise, c.privacy.delta, c.privacy.epsilon));
}

}  // namespace

absl::Status CheckPrivacy(const Config& config, const ConfigPlaces& places) {
  RETURN_IF_ERROR(CheckNoise(config, places));
  if (config.privacy.clip == 0) return absl::OkStatus();
  RETURN_IF_ERROR(CheckSensitivity(config, places));
  return CheckBudget(config, places);
}

}  // namespace atolld
