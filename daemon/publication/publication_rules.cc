#include "daemon/publication/publication_rules.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compression/base/words.h"
#include "daemon/publication/private_run.h"

namespace atolld {
namespace {

// What the means of a private run tell.
void JudgeMeans(const SitePlan& plan, PublicationRules* rules, std::vector<std::string>* reasons) {
  const v1::PrivacySpec& privacy = plan.genesis.spec().privacy();
  if (HasNoise(privacy)) {
    rules->notes.push_back(
        absl::StrCat("the means have their noise: at delta ", privacy.delta(),
                     ", the run's epsilon bounds what they tell of a party, whoever reads them"));
  } else if (plan.lone_means > 0) {
    rules->refusal = absl::FailedPreconditionError(absl::StrCat(
        "in ", Counted(plan.lone_means, "entry", "entries"),
        " a mean is the update of one party alone, and the run's data is private: with "
        "--no-parameters the site has neither means nor states"));
  } else {
    reasons->push_back(absl::StrCat(
        "the run's data is private, and its means have no noise: every round's mean, and every "
        "state, would be public for good, and they tell of the data",
        privacy.masked() ? "; masks hide one party's update, and not the sum" : "",
        " (docs/privacy.md)"));
  }
}

}  // namespace

PublicationRules RulesOf(const SitePlan& plan, bool parameters) {
  const v1::RunSpec& spec = plan.genesis.spec();
  PublicationRules rules;
  rules.notes.push_back(
      "the headers name each peer, with its rounds, steps and tokens of every round");
  if (IsPrivateRun(spec)) {
    rules.notes.push_back(
        "the run is private, so its losses are left out: they have no noise, and tell of the data");
  }
  if (!parameters) return rules;
  std::vector<std::string> reasons;
  if (IsPrivateRun(spec)) JudgeMeans(plan, &rules, &reasons);
  if (spec.has_parent()) {
    reasons.push_back(absl::StrCat(
        "the run is a branch: its version 0 is a state of run ", spec.parent().run_id(),
        ", whose data may have been private, which nothing in this run says"));
  }
  rules.consent = absl::StrJoin(reasons, "; ");
  for (std::string& reason : reasons) rules.notes.push_back(std::move(reason));
  return rules;
}

}  // namespace atolld
