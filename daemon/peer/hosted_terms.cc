#include "daemon/peer/hosted_terms.h"

#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compression/base/status_macros.h"
#include "daemon/peer/party_draw.h"
#include "membership/history/run_mode.h"
#include "membership/privacy/privacy_budget.h"

namespace atolld {
namespace {

// Checks the sampling on which epsilon relies: a party that took part in every round would be
// protected less than the run says.
absl::Status CheckSampling(const v1::RunSpec& spec, const PartiesConfig& parties) {
  const PrivacyTerms terms = PrivacyTermsOf(spec.privacy());
  if (!terms.on() || terms.sampling >= 1) return absl::OkStatus();
  if (MostDrawn(parties.hosted, terms.sampling) > 0) return absl::OkStatus();
  const std::string what =
      parties.hosted == 0
          ? "is one party, which takes part in every round"
          : absl::StrFormat("hosts %d parties, and that share of them is less than one",
                            parties.hosted);
  return absl::FailedPreconditionError(absl::StrFormat(
      "the run's epsilon counts on no more than %.3g %% of a peer's parties being in a round "
      "([privacy] sampling), and this peer %s; host at least %.0f ([parties] hosted), or join a "
      "run with [privacy] sampling = 1",
      100 * terms.sampling, what, std::ceil(1 / terms.sampling - 1e-3)));
}

}  // namespace

absl::Status CheckHosted(const v1::RunSpec& spec, const PartiesConfig& parties) {
  if (parties.hosted > 0 && !spec.data().private_()) {
    return absl::FailedPreconditionError(
        "this peer hosts parties ([parties] hosted), and the run's data is not private");
  }
  if (parties.hosted > 0 && (TrainsAhead(spec) || IsStreaming(spec))) {
    return absl::FailedPreconditionError(
        absl::StrCat("this peer hosts parties ([parties] hosted), which take turns on one worker; "
                     "in mode '",
                     spec.mode().kind(), "' a worker goes on from its own last round"));
  }
  if (parties.hosted > 0 && spec.inner().control_variates() && !parties.keep) {
    return absl::FailedPreconditionError(
        "the run has control variates, which need [parties] keep = true where parties are hosted");
  }
  return CheckSampling(spec, parties);
}

}  // namespace atolld
