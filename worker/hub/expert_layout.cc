#include "worker/hub/expert_layout.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "compression/base/status_macros.h"
#include "worker/hub/json_text.h"

namespace atolld {
namespace {

using Json = nlohmann::json;

// What transformers takes for a missing key.
struct UsualExperts {
  uint32_t count, per_token, hidden;
  double router_loss;
};

UsualExperts UsualOf(const DecoderFamily& family) {
  if (family.has_dense_layers) return {128, 8, 768, 0.001};  // qwen3_moe
  return family.clips ? UsualExperts{64, 8, 0, 0.01} : UsualExperts{8, 2, 0, 0.001};
}

// Mixtral has always said num_local_experts; the others said num_experts, until transformers 5
// called Qwen3-MoE's number num_local_experts.
absl::Status ReadNumber(const Json& config, uint32_t usual, uint32_t* count) {
  uint32_t local = 0;
  RETURN_IF_ERROR(ReadCount(config, "num_local_experts", usual, &local));
  RETURN_IF_ERROR(ReadCount(config, "num_experts", local, count));
  const bool said = config.contains("num_local_experts") && !config["num_local_experts"].is_null();
  if (!said || local == *count) return absl::OkStatus();
  return RefuseKey("num_experts", absl::StrCat(*count),
                   absl::StrCat("what num_local_experts says, ", local));
}

// Returns a letter for each layer: 'e' or 'd'.
absl::StatusOr<std::string> ReadPattern(const Json& config, uint32_t layers) {
  uint32_t step = 1;
  RETURN_IF_ERROR(ReadCount(config, "decoder_sparse_step", 1, &step));
  if (step == 0) return RefuseKey("decoder_sparse_step", "0", "1 or more");
  std::string letters;
  for (uint32_t i = 0; i < layers; ++i) letters += (i + 1) % step == 0 ? 'e' : 'd';
  const auto dense = config.find("mlp_only_layers");
  if (dense == config.end() || dense->is_null()) return letters;
  if (!dense->is_array()) return RefuseKey("mlp_only_layers", dense->dump(), "a list");
  for (const Json& layer : *dense) {
    if (!layer.is_number_unsigned()) {
      return RefuseKey("mlp_only_layers", dense->dump(), "a list of layers' numbers");
    }
    const auto number = layer.get<uint64_t>();  // one of no layer changes nothing
    if (number < layers) letters[number] = 'd';
  }
  return letters;
}

// The shortest pattern that makes these letters; empty if all layers have experts.
std::string PatternOf(const std::string& letters) {
  const std::string pattern = ShortestPattern(letters);
  return pattern == "e" ? "" : pattern;
}

}  // namespace

std::vector<std::string> ExpertKeys(const DecoderFamily& family) {
  if (family.experts.module.empty()) return {};
  std::vector<std::string> keys = {"num_local_experts", "num_experts_per_tok",
                                   "output_router_logits", "router_aux_loss_coef"};
  const auto add = [&keys](bool has, const std::vector<std::string>& more) {
    if (has) keys.insert(keys.end(), more.begin(), more.end());
  };
  add(family.normalised, {"router_jitter_noise"});
  add(family.may_normalise, {"num_experts", "norm_topk_prob"});
  add(family.clips, {"clip_qkv"});
  add(family.has_dense_layers, {"moe_intermediate_size", "decoder_sparse_step", "mlp_only_layers"});
  return keys;
}

absl::Status ReadExperts(const Json& config, const DecoderFamily& family, uint32_t layers,
                         uint32_t hidden, DecoderShape* shape) {
  if (family.experts.module.empty()) return absl::OkStatus();
  const UsualExperts usual = UsualOf(family);
  ExpertShape& experts = shape->experts;
  RETURN_IF_ERROR(ReadNumber(config, usual.count, &experts.count));
  RETURN_IF_ERROR(ReadCount(config, "num_experts_per_tok", usual.per_token, &experts.per_token));
  ASSIGN_OR_RETURN(experts.normalised, FlagIn(config, "norm_topk_prob", false));
  ASSIGN_OR_RETURN(const bool balanced, FlagIn(config, "output_router_logits", false));
  ASSIGN_OR_RETURN(const double share, NumberIn(config, "router_aux_loss_coef", usual.router_loss));
  if (balanced) experts.router_loss = share;
  ASSIGN_OR_RETURN(const double noise, NumberIn(config, "router_jitter_noise", 0));
  if (noise != 0) return RefuseKey("router_jitter_noise", absl::StrCat(noise), "0");
  if (config.contains("clip_qkv") && !config["clip_qkv"].is_null()) {
    ASSIGN_OR_RETURN(shape->qkv_clip, NumberIn(config, "clip_qkv", 0));
    if (!(shape->qkv_clip > 0)) {
      return RefuseKey("clip_qkv", config["clip_qkv"].dump(), "above 0, or null");
    }
  }
  if (!family.has_dense_layers) return absl::OkStatus();
  RETURN_IF_ERROR(ReadCount(config, "moe_intermediate_size", usual.hidden, &experts.hidden));
  if (experts.hidden == 0) return RefuseKey("moe_intermediate_size", "0", "above 0");
  if (experts.hidden == hidden) experts.hidden = 0;
  ASSIGN_OR_RETURN(const std::string letters, ReadPattern(config, layers));
  if (letters.find('e') == std::string::npos) {
    return RefuseKey("mlp_only_layers", "all layers", "a model with a layer of experts");
  }
  experts.pattern = PatternOf(letters);
  return absl::OkStatus();
}

void AddExperts(const DecoderShape& shape, uint32_t layers, uint32_t hidden,
                nlohmann::ordered_json* config) {
  const DecoderFamily& family = *FindDecoderFamily(shape.family);
  if (family.experts.module.empty()) return;
  const ExpertShape& experts = shape.experts;
  if (family.may_normalise) (*config)["num_experts"] = experts.count;
  if (!family.clips) (*config)["num_local_experts"] = experts.count;
  (*config)["num_experts_per_tok"] = experts.per_token;
  if (family.may_normalise) (*config)["norm_topk_prob"] = experts.normalised;
  (*config)["output_router_logits"] = experts.router_loss != 0;
  if (experts.router_loss != 0) (*config)["router_aux_loss_coef"] = experts.router_loss;
  if (family.clips) {
    (*config)["clip_qkv"] = shape.qkv_clip != 0 ? nlohmann::ordered_json(shape.qkv_clip) : nullptr;
  }
  if (!family.has_dense_layers) return;
  (*config)["moe_intermediate_size"] = experts.hidden != 0 ? experts.hidden : hidden;
  (*config)["decoder_sparse_step"] = 1;
  nlohmann::ordered_json dense = nlohmann::ordered_json::array();
  for (uint32_t layer = 0; layer < layers; ++layer) {
    if (!HasExperts(shape, layer)) dense.push_back(layer);
  }
  (*config)["mlp_only_layers"] = dense;
}

absl::optional<TensorPlace> FusedPlaceOf(const DecoderShape& shape, const std::string& name,
                                         const std::vector<uint64_t>& tensor_shape) {
  const DecoderFamily::ExpertNames& names = FindDecoderFamily(shape.family)->experts;
  const std::string within = absl::StrCat(".", names.module, ".");
  const size_t module = name.find(within);
  if (names.module.empty() || module == std::string::npos) return absl::nullopt;
  const std::string there = absl::StrCat(name.substr(0, module), ".mlp.");
  const std::string rest = name.substr(module + within.size());
  const std::vector<std::string> parts = absl::StrSplit(rest, '.');
  uint64_t expert = 0;
  if (parts.size() != 4 || parts[0] != "experts" || !absl::SimpleAtoi(parts[1], &expert)) {
    return TensorPlace{there + rest, tensor_shape, 0};  // the router, or a dense layer
  }
  const uint64_t count = shape.experts.count, values = tensor_shape[0] * tensor_shape[1];
  if (parts[2] == names.down) {
    return TensorPlace{
        there + "experts.down_proj", {count, tensor_shape[0], tensor_shape[1]}, expert * values};
  }
  return TensorPlace{there + "experts.gate_up_proj",
                     {count, 2 * tensor_shape[0], tensor_shape[1]},
                     (2 * expert + (parts[2] == names.up ? 1 : 0)) * values};
}

}  // namespace atolld
