#include "daemon/config/hub_rules.h"

#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "daemon/config/data_config.h"

namespace atolld {
namespace {

bool IsAdapterFolder(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path / "adapter_config.json", error);
}

// An adapter's folder has no config.json; its base has one.
bool IsHubFolder(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path / kHubConfig, error) || IsAdapterFolder(path);
}

PartyFault FolderFault(const ConfigModel& model, bool trains, const std::string& folder) {
  if (model.path.empty()) {
    if (!trains) return {};
    return {{{"model", "path"}},
            "[model] path is missing: a model of kind 'huggingface' is that folder"};
  }
  if (IsHubFolder(std::filesystem::path(folder) / model.path)) return {};
  return {{{"model", "path"}},
          absl::StrCat("model.path '", model.path,
                       "' is not a folder with a config.json or an adapter_config.json, as "
                       "transformers and PEFT write them")};
}

// PEFT knows the modules of each model, and the folder is the base.
PartyFault AdapterFault(const ConfigModel& model) {
  if (!model.base.empty()) {
    return {{{"model", "base"}},
            "[model] base is not for kind 'huggingface': the base is the folder at [model] path"};
  }
  if (model.lora_rank != 0 || (model.lora_alpha == 0 && model.lora_targets.empty())) return {};
  return {{{"model", "lora_targets"}, {"model", "lora_alpha"}},
          "[model] lora_targets and lora_alpha are for adapters; set lora_rank too"};
}

// QLoRA (Dettmers et al., arXiv:2305.14314): only what is frozen can be in 4 bits.
PartyFault BitsFault(const ConfigModel& model, const std::string& folder) {
  if (model.base_bits == 0) return {};
  if (model.kind != kHuggingFaceKind) {
    return {{{"model", "base_bits"}, {"model", "kind"}},
            absl::StrCat("[model] base_bits is for kind 'huggingface' alone; a model of kind '",
                         model.kind, "' has no base in fewer bits: leave it out")};
  }
  if (model.base_bits != 4) {
    return {{{"model", "base_bits"}},
            absl::StrCat("[model] base_bits is ", model.base_bits,
                         "; it must be 4, or 0 for the base as it is")};
  }
  const bool adapters =
      model.lora_rank != 0 ||
      (!model.path.empty() && IsAdapterFolder(std::filesystem::path(folder) / model.path));
  if (adapters) return {};
  return {{{"model", "base_bits"}},
          "[model] base_bits needs lora_rank: values of 4 bits cannot be trained, only adapters "
          "beside them"};
}

}  // namespace

PartyFault HubFault(const Config& config, bool trains, const std::string& folder) {
  PartyFault bits = BitsFault(config.model, folder);
  if (!bits.what.empty()) return bits;
  if (config.model.kind != kHuggingFaceKind) return {};
  if (config.data.tokenizer != kByteTokenizer) {
    return {{{"data", "tokenizer"}},
            "[data] tokenizer is not for a model of kind 'huggingface', which has the tokenizer of "
            "its folder"};
  }
  if (!config.data.sources.empty()) {
    return {{{"data", "sources"}},
            "[data] sources is not for a model of kind 'huggingface', which reads one file or "
            "folder, [data] path"};
  }
  PartyFault fault = FolderFault(config.model, trains, folder);
  return fault.what.empty() ? AdapterFault(config.model) : fault;
}

}  // namespace atolld
