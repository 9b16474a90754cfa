// The rules between [experts], or slices of adapters, and the other keys of a run.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compression/base/lora_slices.h"
#include "daemon/config/config_rules.h"
#include "daemon/config/data_config.h"
#include "daemon/config/expert_sizes.h"
#include "membership/experts/expert_parts.h"

namespace atolld {
namespace {

constexpr uint32_t kFewestChunkElements = 4096;  // as config_table.cc has it
// How much longer than the model an entry may be without a warning.
constexpr double kLongestPadded = 1.1;

// A setting that owners of experts, or slices of adapters, exclude if `broken` is true.
// CheckExperts refuses the same for a run whose config was not checked, as far as the run's record
// has the setting.
struct ExpertsRule {
  bool broken;
  const char* section;
  const char* key;
  const char* right;  // what the key must be
  const char* why;
};

std::vector<ExpertsRule> RulesOfExperts(const Config& c) {
  const std::string& mode = c.mode.kind;
  return {
      {mode != "sync" && mode != "auto", "mode", "kind", "'sync' or 'auto'",
       "a round names its owners before anybody trains for it, and in other modes peers train "
       "ahead or exchange fragments"},
      {c.privacy.masked, "privacy", "masked", "false",
       "masks cover all values of an update, and a peer sends only the experts that it owns"},
      {c.privacy.clip != 0, "privacy", "clip", "0",
       "an update is cut to one length over all values, and a peer's update has only the experts "
       "that it owns"},
      {c.inner.control_variates, "inner", "control_variates", "false",
       "the common variate is made of a mean of all values by all peers"},
      {c.exchange.aggregation != "mean", "exchange", "aggregation", "'mean'",
       "the other rules compare whole updates, or need more updates than an expert has owners"},
      {c.exchange.plan == "regions", "exchange", "plan", "'flat' or 'auto'",
       "what a region has averaged would have other contributors for each expert"},
      {c.outer.rule == "delayed_nesterov", "outer", "rule", "another than 'delayed_nesterov'",
       "it counts the updates in its sum, and each expert has a number of its own"},
      {c.federation.participation < 1, "federation", "participation", "1",
       "an expert moves only in a round in which one of its owners is drawn, so most experts would "
       "stand still in most rounds"},
      {c.parties.hosted != 0, "parties", "hosted", "0",
       "experts are owned by peers, and parties that take turns on one worker are not peers"},
  };
}

std::vector<ExpertsRule> RulesOfSlices(const Config& c) {
  const std::string& mode = c.mode.kind;
  return {
      {c.experts.owners != 0, "experts", "owners", "0",
       "a run divides either its experts or its adapters among peers"},
      {!c.model.local.empty(), "model", "local", "empty",
       "a tensor that stays with each peer is in no slice that others train"},
      {mode != "sync" && mode != "auto", "mode", "kind", "'sync' or 'auto'",
       "in other modes peers train ahead or exchange fragments, and an update is of the slices "
       "that "
       "its round names"},
      {c.privacy.masked, "privacy", "masked", "false",
       "masks cover all values of an update, and a peer sends only the slices that it trains"},
      {c.privacy.clip != 0, "privacy", "clip", "0",
       "an update is cut to one length over all values, and a peer's update has only the slices "
       "that it trains"},
      {c.inner.control_variates, "inner", "control_variates", "false",
       "the common variate is made of a mean of all values by all peers"},
      {c.exchange.aggregation != "mean", "exchange", "aggregation", "'mean'",
       "the other rules compare whole updates"},
      {c.exchange.plan == "regions", "exchange", "plan", "'flat' or 'auto'",
       "what a region has averaged would have other contributors for each slice"},
      {c.outer.rule == "delayed_nesterov", "outer", "rule", "another than 'delayed_nesterov'",
       "it counts the updates in its sum, and each slice has a number of its own"},
      {c.parties.hosted != 0, "parties", "hosted", "0",
       "slices are trained by peers, and parties that take turns on one worker are not peers"},
  };
}

// Returns the fault of the first rule that is broken, for the key that excludes its setting.
ConfigFault FirstExcluded(const std::vector<ExpertsRule>& rules, const char* section,
                          const char* key) {
  for (const ExpertsRule& rule : rules) {
    if (!rule.broken) continue;
    return {{{rule.section, rule.key}, {section, key}},
            absl::StrCat("[", rule.section, "] ", rule.key, " must be ", rule.right, " with [",
                         section, "] ", key, " above 0: ", rule.why)};
  }
  return {};
}

// Returns true if adapters are trained, and none of them is an expert's.
bool AdaptsNoExpert(const ConfigModel& model) {
  if (model.lora_rank == 0 || model.kind != "llama") return false;
  const DecoderFamily* const family = FindDecoderFamily(model.decoder.family);
  if (family == nullptr) return false;
  const std::vector<std::string> targets = SplitNames(model.lora_targets);
  return std::none_of(targets.begin(), targets.end(), [&](const std::string& target) {
    return target == family->experts.gate || target == family->experts.up ||
           target == family->experts.down;
  });
}

// Checks that the model has tensors of experts, as far as the config shows.
ConfigFault FaultOfTensors(const Config& c) {
  const auto fault = [](const char* section, const char* key, std::string what) {
    return ConfigFault{{{section, key}, {"experts", "owners"}}, std::move(what)};
  };
  const std::vector<std::string> patterns = SplitNames(c.experts.tensors);
  const absl::Status few = CheckExpertPatternCount(patterns.size());
  if (!few.ok()) return fault("experts", "tensors", std::string(few.message()));
  for (const std::string& pattern : patterns) {
    const absl::Status sound = CheckExpertPattern(pattern);
    if (!sound.ok()) return fault("experts", "tensors", std::string(sound.message()));
  }
  const std::string& kind = c.model.kind;
  if (kind == kTorchScriptKind || kind == kExternalKind) {
    return fault("model", "kind",
                 absl::StrCat("[model] kind must be 'llama' or 'huggingface' with [experts] owners "
                              "above 0, not '",
                              kind, "': its worker trains all of a model in every round"));
  }
  if (c.experts.tensors.empty() && DefaultExpertTensors(c.model).empty()) {
    const bool dense = kind == "llama";
    return fault(
        dense ? "model" : "experts", dense ? "experts" : "owners",
        absl::StrCat("[experts] owners needs a mixture of experts, and a model of kind '", kind,
                     dense ? "' with [model] experts = 0" : "'", " is none: set ",
                     dense ? "[model] family and experts" : "[model] kind 'llama' or 'huggingface'",
                     ", or name the tensors in [experts] tensors"));
  }
  if (c.experts.tensors.empty() && AdaptsNoExpert(c.model)) {
    const DecoderFamily& family = *FindDecoderFamily(c.model.decoder.family);
    return fault("model", "lora_targets",
                 absl::StrCat("[model] lora_targets must have ", family.experts.gate, ", ",
                              family.experts.up, " or ", family.experts.down,
                              " with [experts] owners above 0: there are no other adapters of "
                              "experts"));
  }
  return {};
}

}  // namespace

std::vector<std::string> DefaultExpertTensors(const ConfigModel& model) {
  // The names in transformers' modules, whatever the family.
  if (model.kind == kHuggingFaceKind) return {"*.experts.#.*"};
  const DecoderFamily* const family =
      model.kind == "llama" ? FindDecoderFamily(model.decoder.family) : nullptr;
  if (family == nullptr || model.decoder.experts.count == 0) return {};
  return {absl::StrCat("*.", family->experts.module, ".experts.#.*")};
}

v1::ExpertsSpec MakeExpertsSpec(const RunConfig& config) {
  v1::ExpertsSpec spec;
  if (config.model.lora_slice > 0) {
    spec.add_tensors(kSliceTensors);
    return spec;
  }
  spec.set_owners(config.experts.owners);
  const std::string& own = config.experts.tensors;
  for (const std::string& pattern :
       own.empty() ? DefaultExpertTensors(config.model) : SplitNames(own)) {
    spec.add_tensors(pattern);
  }
  return spec;
}

ConfigFault FaultOfExperts(const Config& config) {
  const ExpertsConfig& experts = config.experts;
  if (experts.owners == 0) {
    if (experts.tensors.empty()) return {};
    return {{{"experts", "tensors"}, {"experts", "owners"}},
            "[experts] tensors needs owners above 0: without owners every peer trains all tensors"};
  }
  ConfigFault broken = FirstExcluded(RulesOfExperts(config), "experts", "owners");
  return broken.what.empty() ? FaultOfTensors(config) : broken;
}

ConfigFault FaultOfSlices(const Config& config, ConfigUse use) {
  const ConfigModel& model = config.model;
  const bool holds_run = use == ConfigUse::kLocal || use == ConfigUse::kCoordinator;
  if (holds_run || model.lora_slice != 0) {
    const absl::Status own = CheckFirstRanks(config.worker.lora_rank, model.lora_rank,
                                             model.lora_slice, "[worker] lora_rank");
    if (!own.ok()) {
      return {{{"worker", "lora_rank"}, {"model", "lora_slice"}}, std::string(own.message())};
    }
  }
  if (model.lora_slice == 0) return {};
  const absl::Status cut = CheckLoraSlice(model.lora_rank, model.lora_slice, "[model] ");
  if (!cut.ok())
    return {{{"model", "lora_slice"}, {"model", "lora_rank"}}, std::string(cut.message())};
  if (model.lora_rank / model.lora_slice > kMostExperts) {
    return {{{"model", "lora_slice"}, {"model", "lora_rank"}},
            absl::StrCat("[model] lora_slice = ", model.lora_slice, " makes ",
                         model.lora_rank / model.lora_slice, " slices of lora_rank = ",
                         model.lora_rank, "; there may be ", kMostExperts)};
  }
  return FirstExcluded(RulesOfSlices(config), "model", "lora_slice");
}

bool DividesModel(const RunConfig& config) {
  return config.experts.owners > 0 || config.model.lora_slice > 0;
}

std::string WarningOfOwners(const Config& config) {
  const uint32_t owners = config.experts.owners;
  if (owners == 0 || owners < config.run.peers) return "";
  return absl::StrCat("[experts] owners is ", owners, ", and [run] peers is ", config.run.peers,
                      ": every peer owns all experts until more peers join");
}

std::string WarningOfPadding(const Config& config) {
  if (!DividesModel(config) || IsForeign(config.model.kind)) return "";
  const bool slices = config.model.lora_slice > 0;
  if (config.model.vocabulary == 0 && NeedsCounting(config.data)) return "";
  const ExpertSizes sizes = ExpertSizesOf(MakeModelSpec(config.model), MakeExpertsSpec(config));
  if (!sizes.known()) return "";
  const auto values = static_cast<double>(sizes.shared + sizes.OfExperts());
  const auto length = [&](uint32_t chunk) {
    return static_cast<double>(sizes.Padded(chunk)) / values;
  };
  const uint32_t chunk = config.exchange.chunk_elements;
  if (length(chunk) <= kLongestPadded) return "";
  const std::string why = absl::StrFormat(
      "[exchange] chunk_elements is %u: each %s begins at a chunk, and the "
      "zeros between make an entry %.2f times as long as the %s",
      chunk, slices ? "slice" : "expert", length(chunk), slices ? "adapters" : "model");
  uint32_t lower = kFewestChunkElements;
  while (2 * lower < chunk && length(2 * lower) <= kLongestPadded) lower *= 2;
  if (length(lower) <= kLongestPadded) {
    return absl::StrFormat("%s; with %u it is %.2f times", why, lower, length(lower));
  }
  return absl::StrFormat("%s; the %s are too small for any value to make it less than %.1f", why,
                         slices ? "slices" : "experts", kLongestPadded);
}

}  // namespace atolld
