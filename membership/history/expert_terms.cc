#include "membership/history/expert_terms.h"

#include <string>
#include <vector>

#include "absl/base/casts.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "compression/base/lora_slices.h"
#include "compression/base/status_macros.h"
#include "membership/experts/expert_parts.h"
#include "membership/history/payload.h"
#include "membership/history/run_codecs.h"

namespace atolld {
namespace {

// Returns what the run has beside owners, or slices of adapters, that it cannot have; empty if
// there is nothing. The config gives the reasons (daemon/config/experts_rules.cc).
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
  const uint32_t drawn = spec.federation().participation_bits();
  if (!HasSlices(spec) && drawn != 0 && !(absl::bit_cast<float>(drawn) >= 1)) {
    return std::string("[federation] participation below 1");
  }
  const std::string& kind = spec.model().kind();
  if (kind == "torchscript" || kind == "external") return absl::StrCat("[model] kind '", kind, "'");
  if (HasSlices(spec) && spec.model().local_size() > 0) return std::string("[model] local");
  return std::string();
}

// Checks that the run's adapters have slices as its record says, and nothing else is owned.
absl::Status CheckSlices(const v1::RunSpec& spec, const ExpertParts& divided) {
  const v1::ModelSpec& model = spec.model();
  RETURN_IF_ERROR(CheckLoraSlice(model.lora_rank(), model.lora_slice(), "[model] "));
  const uint32_t slices = model.lora_rank() / model.lora_slice();
  if (divided.experts() != slices || divided.numbers.back() != slices - 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the adapters have slices ", NameOwned(divided.numbers, OwnsAll(divided.experts())),
        "; with [model] lora_rank = ", model.lora_rank(), " and lora_slice = ", model.lora_slice(),
        " they must be 0-", slices - 1));
  }
  if (divided.parts[0].empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "with [model] lora_slice every tensor that is trained must be of a slice");
}

// Checks that the grid of chunks with its padding can exist.
absl::Status CheckPaddedGrid(const ExpertParts& divided, uint32_t chunk_elements) {
  if (chunk_elements == 0) return absl::OkStatus();  // CheckGenesis refuses that
  uint64_t chunks = 0;
  for (const std::vector<PartRange>& part : divided.parts) {
    uint64_t values = 0;
    for (const PartRange& range : part) values += range.count;
    chunks += (values + chunk_elements - 1) / chunk_elements;
  }
  if (chunks < kMaxChunks) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "[exchange] chunk_elements = ", chunk_elements, " makes ", chunks,
      " chunks of a model whose experts each begin at a chunk; there must be fewer than ",
      kMaxChunks));
}

}  // namespace

absl::Status CheckExperts(const v1::RunSpec& spec, const v1::Manifest& manifest) {
  const uint32_t owners = spec.experts().owners();
  const bool slices = HasSlices(spec);
  if (!HasExperts(spec)) {
    if (spec.experts().tensors().empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        "[experts] tensors has no meaning with owners = 0: every peer trains all tensors");
  }
  if (owners > kMostOwners) {
    return absl::InvalidArgumentError(
        absl::StrCat("[experts] owners must be at most ", kMostOwners, ", not ", owners));
  }
  const std::string own = slices ? absl::StrCat("[model] lora_slice = ", spec.model().lora_slice())
                                 : absl::StrCat("[experts] owners = ", owners);
  ASSIGN_OR_RETURN(std::string odd, AtOddsWithOwners(spec));
  if (slices && owners > 0) odd = absl::StrCat("[experts] owners = ", owners);
  if (!odd.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(odd, " cannot be combined with ", own));
  }
  ASSIGN_OR_RETURN(const ExpertParts divided, DivideIntoExperts(spec.experts(), manifest));
  if (slices) RETURN_IF_ERROR(CheckSlices(spec, divided));
  return CheckPaddedGrid(divided, spec.exchange().chunk_elements());
}

}  // namespace atolld
