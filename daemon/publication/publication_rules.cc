#include "daemon/publication/publication_rules.h"

#include "absl/strings/str_cat.h"
#include "compression/base/words.h"

namespace atolld {
namespace {

bool HasNoise(const v1::PrivacySpec& privacy) {
  return privacy.clip_bits() != 0 && privacy.noise_bits() != 0;  // 0 is the bits of 0.0 too
}

}  // namespace

PublicationRules RulesOf(const SitePlan& plan, bool parameters) {
  const v1::RunSpec& spec = plan.genesis.spec();
  const v1::PrivacySpec& privacy = spec.privacy();
  PublicationRules rules;
  rules.notes.push_back(
      "the headers name each peer, with its rounds, steps and tokens of every round");
  const bool private_run = spec.data().private_() || privacy.masked() || HasNoise(privacy);
  if (!private_run || !parameters) return rules;
  if (HasNoise(privacy)) {
    rules.notes.push_back(
        absl::StrCat("the means have their noise: at delta ", privacy.delta(),
                     ", the run's epsilon bounds what they tell of a party, whoever reads them"));
    return rules;
  }
  if (plan.lone_means > 0) {
    rules.refusal = absl::FailedPreconditionError(absl::StrCat(
        "in ", Counted(plan.lone_means, "entry", "entries"),
        " a mean is the update of one party alone, and the run's data is private: with "
        "--no-parameters the site has neither means nor states"));
    return rules;
  }
  rules.consent = absl::StrCat(
      "the run's data is private, and its means have no noise: every round's mean, and every "
      "state, "
      "would be public for good, and they tell of the data",
      privacy.masked() ? "; masks hide one party's update, and not the sum" : "",
      " (docs/privacy.md)");
  rules.notes.push_back(rules.consent);
  return rules;
}

}  // namespace atolld
