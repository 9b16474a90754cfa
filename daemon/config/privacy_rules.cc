#include "daemon/config/privacy_rules.h"

#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compression/base/status_macros.h"
#include "daemon/config/run_record.h"
#include "membership/privacy/privacy_budget.h"

namespace atolld {
namespace {

// The required value of `[section] key`, which is wrong if `broken` is true.
struct PrivacyRule {
  bool broken;
  const char* section;
  const char* key;
  std::string right;
};

// Returns "must be RIGHT with [privacy] clip: WHY".
std::string WithClip(const std::string& right, const std::string& why) {
  return absl::StrCat("must be ", right, " with [privacy] clip", why.empty() ? "" : ": ", why);
}

// Without a clip none of these keys has a meaning.
std::vector<PrivacyRule> OfNoClip(const Config& c) {
  const PrivacyConfig& p = c.privacy;
  const std::string needs =
      "needs [privacy] clip above 0: without a bound on an update's length no noise hides it";
  return {{p.noise > 0, "privacy", "noise", needs},
          {p.quantile > 0, "privacy", "quantile", needs},
          {p.epsilon > 0, "privacy", "epsilon", needs}};
}

// Returns how often each party of a peer is in a round, if this file says so. For a peer that is
// one party nothing is drawn that others do not see, so it returns 0.
double Rate(const Config& c) {
  if (c.parties.hosted == 0) return 0;
  const uint32_t asked = c.parties.a_round == 0 ? c.parties.hosted : c.parties.a_round;
  // As the run records it.
  const double rate = static_cast<double>(asked) / c.parties.hosted;
  return double{static_cast<float>(rate)} - 1e-6;
}

// The rules about what a clip needs beside it.
std::vector<PrivacyRule> OfNoise(const Config& c) {
  const PrivacyConfig& p = c.privacy;
  return {
      {p.noise == 0, "privacy", "noise",
       "must be above 0 with [privacy] clip: a clip alone hides nothing"},
      {p.place != "party", "privacy", "place",
       "must be 'party': peers that audit or vote on a mean recompute it, and could not tell a "
       "reducer's noise from a lie"},
      {p.parties == 0, "privacy", "parties", WithClip("above 0", "")},
      {p.sampling == 0, "privacy", "sampling", WithClip("above 0", "")},
      {p.sampling < Rate(c), "privacy", "sampling",
       absl::StrFormat("must be at least %.4g, the share of its parties that a peer asks in a "
                       "round ([parties] a_round), not %g",
                       Rate(c), p.sampling)},
      {p.delta * p.parties >= 1, "privacy", "delta",
       absl::StrFormat(
           "must be below one over the number of parties, %.4g with %d of them in a "
           "round, not %g: a larger delta would allow all of one party's data to be revealed",
           1.0 / p.parties, p.parties, p.delta)},
      {p.quantile > 0 && p.parties <= 10 * p.noise, "privacy", "quantile",
       absl::StrFormat("needs more than 10 x noise parties in a round, above %g, not %d: with "
                       "fewer, the noise cannot also hide the count of short updates",
                       10 * p.noise, p.parties)},
  };
}

// The rules against settings that would let a party change the mean by more than its clip.
std::vector<PrivacyRule> OfSensitivity(const Config& c) {
  return {
      {!c.data.is_private && c.model.kind != kStubKind, "data", "private",
       WithClip("true",
                "a party's data is what is protected, and shared data belongs to no party")},
      {c.exchange.error_feedback, "exchange", "error_feedback",
       WithClip("false",
                "what one update left out would come back in later ones, beyond their "
                "clip")},
      {c.exchange.aggregation != "mean", "exchange", "aggregation",
       WithClip("'mean'", absl::StrCat("with '", c.exchange.aggregation,
                                       "' it is not known how far one update can move the mean"))},
      {c.exchange.clip != 0, "exchange", "clip",
       WithClip("0",
                "updates have one length already, and scaling some of them down would take "
                "noise away from the others")},
      {c.federation.weights != "equal", "federation", "weights",
       WithClip("'equal'", absl::StrCat("with '", c.federation.weights,
                                        "' a party's weight reveals something of its data, and a "
                                        "heavy one's update is hidden less"))},
      {c.federation.normalised, "federation", "normalised",
       WithClip("false", "it makes some updates longer than the clip")},
      {c.inner.control_variates, "inner", "control_variates",
       WithClip("false", "control variates are sent without noise")},
  };
}

// A budget that not even the first round may spend would seal the run at version 0.
PrivacyRule OfBudget(const Config& c) {
  PrivacyRule rule = {false, "privacy", "epsilon", ""};
  if (c.privacy.epsilon == 0) return rule;
  const uint32_t quorum = c.run.quorum == 0 ? c.run.peers / 2 + 1 : c.run.quorum;
  const PrivacyTerms terms = PrivacyTermsOf(MakeRunSpec(c).privacy());
  const double drawn = std::ceil(c.federation.participation * quorum - 1e-6);
  const uint32_t fewest = c.federation.drop > 0 ? 1 : static_cast<uint32_t>(drawn);
  const double first =
      PrivacyAccountant().EpsilonAfter(terms.sampling, terms.NoiseOf(fewest), 1, terms.delta);
  rule.broken = first > c.privacy.epsilon;
  rule.right = absl::StrFormat(
      "must be at least %.3g, what one round with only %d updates (a quorum of %d) spends at noise "
      "= %g and delta = %g, not %g",
      first, fewest, quorum, c.privacy.noise, c.privacy.delta, c.privacy.epsilon);
  return rule;
}

// Reports the error at the one of the two places that can be changed.
absl::Status FirstBroken(const std::vector<PrivacyRule>& rules, const ConfigPlaces& places) {
  for (const PrivacyRule& rule : rules) {
    if (!rule.broken) continue;
    const std::string& place = places.Has(rule.section, rule.key)
                                   ? places.Of(rule.section, rule.key)
                                   : places.Of("privacy", "clip");
    return absl::InvalidArgumentError(
        absl::StrCat(place, ": [", rule.section, "] ", rule.key, " ", rule.right));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckPrivacy(const Config& config, const ConfigPlaces& places) {
  if (config.privacy.clip == 0) return FirstBroken(OfNoClip(config), places);
  RETURN_IF_ERROR(FirstBroken(OfNoise(config), places));
  RETURN_IF_ERROR(FirstBroken(OfSensitivity(config), places));
  return FirstBroken({OfBudget(config)}, places);
}

}  // namespace atolld
