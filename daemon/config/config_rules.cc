#include "daemon/config/config_rules.h"

#include <filesystem>
#include <system_error>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compression/wire_codec.h"
#include "daemon/env/network.h"

namespace atolld {
namespace {

ConfigFault FaultOfConversations(const DataConfig& data) {
  const DataConfig usual;
  if (!IsChat(data)) {
    const char* key = data.loss_on != usual.loss_on   ? "loss_on"
                      : data.packing != usual.packing ? "packing"
                                                      : nullptr;
    if (key == nullptr) return {};
    return {{{"data", key}},
            absl::StrCat("[data] ", key,
                         " is for conversations; set template, or kind = 'chat' for prompts and "
                         "completions without one")};
  }
  if (data.kind != "text" && data.kind != "jsonl" && data.kind != "chat") {
    return {{{"data", "template"}, {"data", "kind"}},
            absl::StrCat("[data] template is for conversations, which are lines of JSON, and kind "
                         "is '",
                         data.kind, "'; leave one of them out")};
  }
  if (!data.field.empty()) {
    return {{{"data", "field"}},
            "[data] field must be empty with conversations, which have their text under messages, "
            "or prompt and completion"};
  }
  if (data.tokenizer == kCharTokenizer) {
    return {{{"data", "tokenizer"}},
            "[data] tokenizer must not be 'chars' with conversations; take a file"};
  }
  if (!data.chat_template.empty() && data.tokenizer == kByteTokenizer) {
    return {{{"data", "template"}, {"data", "tokenizer"}},
            absl::StrCat("[data] template '", data.chat_template,
                         "' needs a tokenizer's file that has its tokens, and tokenizer is "
                         "'bytes'")};
  }
  return {};
}

}  // namespace

ConfigFault FaultOfData(const DataConfig& data) {
  const uint32_t width = data.width;
  if ((width & (width - 1)) != 0) {
    return {{{"data", "width"}},
            absl::StrCat("[data] width is ", width,
                         "; it must be 1, 2, 4 or 8 bytes, 16, 32 or 64 bits, or 0")};
  }
  return FaultOfConversations(data);
}

namespace {

// Checks what an aggregation rule needs from the run.
ConfigFault AggregationFaultOf(const Config& c) {
  const std::string& rule = c.exchange.aggregation;
  const absl::StatusOr<AggregationRule> made = AggregationOf(c);
  if (!made.ok()) {
    return {{{"exchange", "faulty"}, {"exchange", "aggregation"}},
            absl::StrCat("[exchange] aggregation: ", made.status().message())};
  }
  if (made->has_centre() && c.exchange.clip == 0) {
    return {{{"exchange", "clip"}, {"exchange", "aggregation"}},
            absl::StrCat("[exchange] clip must be above 0 with aggregation '", rule,
                         "', which is the mean without")};
  }
  if (rule != "mean" && c.exchange.plan == "regions") {
    return {{{"exchange", "plan"}, {"exchange", "aggregation"}},
            absl::StrCat("[exchange] plan must be 'flat' or 'auto' with aggregation '", rule,
                         "': what a region has averaged cannot be judged")};
  }
  const size_t least = made->LeastContributors();
  const bool all = c.run.quorum == 0;
  if ((all ? c.run.peers : c.run.quorum) < least) {
    return {{{"run", all ? "peers" : "quorum"}, {"exchange", "aggregation"}},
            absl::StrCat("[run] ", all ? "peers" : "quorum", " must be at least ", least,
                         " with aggregation '", rule, "' and faulty = ", c.exchange.faulty,
                         ", not ", all ? c.run.peers : c.run.quorum)};
  }
  if (c.membership.outsized > 0 && c.membership.outsized <= 1) {
    return {
        {{"membership", "outsized"}},
        absl::StrCat("[membership] outsized must be 0 or above 1, not ", c.membership.outsized)};
  }
  if (c.membership.offences > c.membership.offence_rounds) {
    return {{{"membership", "offences"}, {"membership", "offence_rounds"}},
            absl::StrCat("[membership] offences must be at most offence_rounds (",
                         c.membership.offence_rounds, "), not ", c.membership.offences)};
  }
  return {};
}

ConfigFault SlowCodecFaultOf(const Config& c, const LevelCodecs& codecs) {
  const std::string& slow = c.exchange.slow_codec;
  if (slow.empty()) return {};
  if (absl::EndsWith(slow, "+zstd") && !codecs.updates.zstd) {
    return {{{"exchange", "slow_codec"}, {"exchange", "codec"}},
            absl::StrCat("[exchange] slow_codec must be a codec without '+zstd' beside codec '",
                         c.exchange.codec, "', not '", slow,
                         "': updates are compressed once more by all or by nobody")};
  }
  if (c.privacy.masked) {
    return {{{"exchange", "slow_codec"}, {"privacy", "masked"}},
            "[exchange] slow_codec must be empty with [privacy] masked = true: what is sent then "
            "are sums of ring elements, which have one form"};
  }
  const absl::Status fits = CheckSlowCodec(codecs, *ParseCodecName(slow)->codec);
  if (fits.ok()) return {};
  return {{{"exchange", "slow_codec"}, {"exchange", "codec"}},
          absl::StrCat("[exchange] slow_codec: ", fits.message())};
}

}  // namespace

absl::StatusOr<AggregationRule> AggregationOf(const Config& config) {
  AggregationSettings settings;
  settings.rule = config.exchange.aggregation;
  settings.faulty = config.exchange.faulty;
  return AggregationRule::Make(settings);
}

ConfigFault FaultOfExchange(const Config& c) {
  const absl::StatusOr<LevelCodecs> codecs = ParseLevels(c.exchange.codec, c.exchange.upper_codec);
  if (!codecs.ok()) {
    return {{{"exchange", "upper_codec"}, {"exchange", "codec"}},
            absl::StrCat("[exchange] upper_codec: ", codecs.status().message())};
  }
  const ConfigFault slow = SlowCodecFaultOf(c, *codecs);
  if (!slow.what.empty()) return slow;
  const ConfigFault aggregation = AggregationFaultOf(c);
  if (!aggregation.what.empty()) return aggregation;
  if (c.exchange.rounding == "nearest" || codecs->updates.codec->has_stochastic_rounding() ||
      codecs->means.codec->has_stochastic_rounding()) {
    return {};
  }
  return {{{"exchange", "rounding"}, {"exchange", "codec"}},
          absl::StrCat("[exchange] rounding must be 'nearest' with codec '", codecs->name(),
                       "', which has no other, not '", c.exchange.rounding, "'")};
}

ConfigFault FaultOfHttp(const Config::Http& http) {
  if (http.certificate.empty() != http.key.empty()) {
    const bool has = !http.certificate.empty();
    return {{{"http", has ? "certificate" : "key"}},
            absl::StrCat("[http] ", has ? "certificate" : "key", " needs [http] ",
                         has ? "key" : "certificate", " beside it")};
  }
  if (http.listen == "auto" || http.listen == "off" || IsLoopback(http.listen)) return {};
  std::vector<std::string> missing;
  if (http.certificate.empty()) missing = {"certificate", "key"};
  if (http.token_file.empty()) missing.push_back("token_file");
  if (missing.empty()) return {};
  return {{{"http", "listen"}},
          absl::StrCat("[http] listen '", http.listen,
                       "' can be reached from other machines, so it needs [http] ",
                       absl::StrJoin(missing, ", "),
                       " too; an address such as '127.0.0.1:7080' needs none")};
}

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

ConfigFault FolderFault(const ConfigModel& model, bool trains, const std::string& folder) {
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
ConfigFault AdapterFault(const ConfigModel& model) {
  if (!model.base.empty()) {
    return {{{"model", "base"}},
            "[model] base is not for kind 'huggingface': the base is the folder at [model] path"};
  }
  if (model.lora_rank != 0 || (model.lora_alpha == 0 && model.lora_targets.empty())) return {};
  return {{{"model", "lora_targets"}, {"model", "lora_alpha"}},
          "[model] lora_targets and lora_alpha are for adapters; set lora_rank too"};
}

// QLoRA (Dettmers et al., arXiv:2305.14314): only what is frozen can be in 4 bits.
ConfigFault BitsFault(const ConfigModel& model, const std::string& folder) {
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

ConfigFault FaultOfHub(const Config& config, bool trains, const std::string& folder) {
  ConfigFault bits = BitsFault(config.model, folder);
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
  ConfigFault fault = FolderFault(config.model, trains, folder);
  return fault.what.empty() ? AdapterFault(config.model) : fault;
}

}  // namespace atolld
