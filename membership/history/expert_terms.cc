#include "membership/history/expert_terms.h"

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "compression/base/status_macros.h"
#include "membership/experts/expert_parts.h"
#include "membership/history/run_codecs.h"

namespace atolld {
namespace {

// Returns what the run has beside owners that it cannot have; empty if there is nothing. The config
// gives the reasons (daemon/config/experts_rules.cc).
absl::StatusOr<std::string> AtOddsWithOwners(const v1::RunSpec& spec) {
  const std::string& mode = spec.mode().kind();
  if (!mode.empty() && mode != "sync") return absl::StrCat("[mode] kind '", mode, "'");
  if (spec.privacy().masked()) return std::string("[privacy] masked");
  if (spec.privacy().clip_bits() != 0) return std::string("[privacy] clip");
  if (spec.inner().control_variates()) return std::string("[inner] control_variates");
  ASSIGN_OR_RETURN(const AggregationRule rule, RuleOf(spec.exchange()));
  if (rule.settings().rule != "mean") {
    return absl::StrCat("[exchange] aggregation '", rule.settings().rule, "'");
  }
  if (spec.outer().rule() == "delayed_nesterov") {
    return std::string("[outer] rule 'delayed_nesterov'");
  }
  const std::string& kind = spec.model().kind();
  if (kind == "torchscript" || kind == "external") return absl::StrCat("[model] kind '", kind, "'");
  return std::string();
}

}  // namespace

absl::Status CheckExperts(const v1::RunSpec& spec, const v1::Manifest& manifest) {
  const uint32_t owners = spec.experts().owners();
  if (!HasExperts(spec)) {
    if (spec.experts().tensors().empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        "[experts] tensors has no meaning with owners = 0: every peer trains all tensors");
  }
  if (owners > kMostOwners) {
    return absl::InvalidArgumentError(
        absl::StrCat("[experts] owners must be at most ", kMostOwners, ", not ", owners));
  }
  ASSIGN_OR_RETURN(const std::string odd, AtOddsWithOwners(spec));
  if (!odd.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(odd, " cannot be combined with [experts] owners = ", owners));
  }
  return DivideIntoExperts(spec.experts(), manifest).status();
}

}  // namespace atolld
