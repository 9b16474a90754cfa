#include "compression/base/decoder.h"

#include <cmath>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace atolld {
namespace {

using Norms = DecoderFamily::Norms;
using HeadNorms = DecoderFamily::HeadNorms;

DecoderFamily Family(absl::string_view name) {
  DecoderFamily family;
  family.name = name;
  return family;
}

std::vector<DecoderFamily> MakeFamilies() {
  DecoderFamily llama = Family("llama"), mistral = Family("mistral"), qwen2 = Family("qwen2"),
                qwen3 = Family("qwen3"), smollm3 = Family("smollm3"), olmo2 = Family("olmo2"),
                gemma2 = Family("gemma2"), gemma3 = Family("gemma3"), mixtral = Family("mixtral"),
                qwen3_moe = Family("qwen3_moe"), olmoe = Family("olmoe");
  for (DecoderFamily* one :
       {&llama, &qwen3, &smollm3, &olmo2, &gemma2, &gemma3, &qwen3_moe, &olmoe}) {
    one->may_bias = true;
  }
  for (DecoderFamily* one : {&mistral, &qwen2, &qwen3, &gemma2, &gemma3, &mixtral, &qwen3_moe}) {
    one->letters = "gl";
  }
  for (DecoderFamily* one : {&qwen2, &qwen3, &smollm3, &gemma2, &gemma3}) one->mixed = true;
  smollm3.letters = "glnm";
  qwen2.query_bias = true;
  qwen3.head_norms = HeadNorms::kHead;
  olmo2.head_norms = HeadNorms::kWhole;
  olmo2.norms = Norms::kAfter;
  gemma2.caps = true;
  gemma3.head_norms = HeadNorms::kHead;
  gemma3.local_theta = true;
  for (DecoderFamily* one : {&gemma2, &gemma3}) {
    one->norms = Norms::kBoth;
    one->gemma = true;
  }
  mixtral.experts = {"block_sparse_moe", "w1", "w3", "w2"};
  mixtral.normalised = true;
  for (DecoderFamily* one : {&qwen3_moe, &olmoe}) {
    one->experts = {"mlp", "gate_proj", "up_proj", "down_proj"};
    one->may_normalise = true;
  }
  qwen3_moe.head_norms = HeadNorms::kHead;
  qwen3_moe.has_dense_layers = true;
  olmoe.head_norms = HeadNorms::kWhole;
  olmoe.clips = true;
  return {llama, mistral, qwen2, qwen3, smollm3, olmo2, gemma2, gemma3, mixtral, qwen3_moe, olmoe};
}

const std::vector<DecoderFamily>& Families() {
  static const auto* const families = new std::vector<DecoderFamily>(MakeFamilies());
  return *families;
}

constexpr uint32_t kWidestHead = 65536;
constexpr uint32_t kLongestWindow = 1u << 24;  // as a context
constexpr uint32_t kWidestExpert = 1u << 20;   // as a dense layer
constexpr uint32_t kMostExperts = 1024;        // twice as many as any published layer has

// Returns a fault such as "window is 4, and " followed by `why`.
template <typename Value>
DecoderFault Fault(absl::string_view key, const Value& value, absl::string_view why) {
  return {std::string(key), absl::StrCat(key, " is ", value, why)};
}

DecoderFault NotOf(const DecoderShape& shape, absl::string_view key) {
  return {std::string(key), absl::StrCat(key, " is not for family '", shape.family,
                                         "'; leave it out, or take another family")};
}

DecoderFault FaultOfLayers(const DecoderShape& shape, const DecoderFamily& family,
                           uint32_t layers) {
  const std::string& pattern = shape.layer_pattern;
  if (shape.window != 0 && family.letters == "g") return NotOf(shape, "window");
  if (shape.window > kLongestWindow) {
    return Fault("window", shape.window, absl::StrCat("; it must be 0-", kLongestWindow));
  }
  if (pattern.empty()) return {};
  if (!family.mixed) return NotOf(shape, "layer_pattern");
  if (pattern.size() > layers) {
    return {"layer_pattern",
            absl::StrCat("layer_pattern has ", pattern.size(),
                         " letters; it must have at most one for each of the ", layers, " layers")};
  }
  bool local = false;
  for (const char letter : pattern) {
    local = local || IsLocalLayer(letter);
    if (family.letters.find(letter) != absl::string_view::npos) continue;
    return Fault(
        "layer_pattern", absl::StrCat("'", absl::CEscape(pattern), "'"),
        absl::StrCat("; with family '", family.name, "' its letters must be of: ", family.letters));
  }
  if (local && shape.window == 0)
    return {"window",
            "window is missing: layer_pattern has layers "
            "that see a window alone"};
  if (!local && shape.window != 0) {
    return Fault("window", shape.window, "; it must be 0, since layer_pattern has no local layer");
  }
  return {};
}

bool IsAtLeast(double least, double value) { return value >= least && std::isfinite(value); }

DecoderFault FaultOfScaling(const DecoderShape& shape) {
  const std::string& type = shape.rope_scaling;
  const bool bands = type == "llama3" || type == "yarn";
  if (type != "none" && type != "linear" && !bands) {
    return Fault("rope_scaling", absl::StrCat("'", absl::CEscape(type), "'"),
                 "; it must be none, linear, llama3 or yarn");
  }
  const std::string of = absl::StrCat(" with rope_scaling '", type, "'");
  const std::pair<absl::string_view, double> unused[] = {
      {"rope_factor", type == "none" ? shape.rope_factor : 0},
      {"rope_low", bands ? 0 : shape.rope_low},
      {"rope_high", bands ? 0 : shape.rope_high},
      {"rope_context", bands ? 0 : shape.rope_context},
      {"rope_attention", type == "yarn" ? 0 : shape.rope_attention}};
  for (const auto& [key, value] : unused) {
    if (value != 0) return Fault(key, value, absl::StrCat("; it must be 0", of));
  }
  if (type == "none") return {};
  if (!IsAtLeast(1, shape.rope_factor)) {
    return Fault("rope_factor", shape.rope_factor, absl::StrCat("; it must be 1 or more", of));
  }
  if (!bands) return {};
  if (!(shape.rope_low > 0)) {
    return Fault("rope_low", shape.rope_low, absl::StrCat("; it must be above 0", of));
  }
  if (!(shape.rope_high > shape.rope_low && std::isfinite(shape.rope_high))) {
    return Fault("rope_high", shape.rope_high,
                 absl::StrCat("; it must be above rope_low, ", shape.rope_low, ",", of));
  }
  if (shape.rope_context < 1 || shape.rope_context > kLongestWindow) {
    return Fault("rope_context", shape.rope_context,
                 absl::StrCat("; it must be 1-", kLongestWindow, of));
  }
  if (IsAtLeast(0, shape.rope_attention)) return {};
  return Fault("rope_attention", shape.rope_attention, absl::StrCat("; it must be 0 or more", of));
}

DecoderFault FaultOfGemma(const DecoderShape& shape, const DecoderFamily& family) {
  if (shape.query_scalar != 0 && !family.gemma) return NotOf(shape, "query_scalar");
  if (shape.local_rope_theta != 0 && !family.local_theta) return NotOf(shape, "local_rope_theta");
  if (family.local_theta && !IsAtLeast(1, shape.local_rope_theta)) {
    return Fault("local_rope_theta", shape.local_rope_theta,
                 absl::StrCat("; it must be 1 or more with family '", family.name, "'"));
  }
  const std::pair<absl::string_view, double> caps[] = {{"attention_cap", shape.attention_cap},
                                                       {"logit_cap", shape.logit_cap}};
  for (const auto& [key, cap] : caps) {
    if (cap != 0 && !family.caps) return NotOf(shape, key);
    if (!IsAtLeast(0, cap)) return Fault(key, cap, "; it must be 0 or more");
  }
  return {};
}

DecoderFault FaultOfExpertPattern(const DecoderShape& shape, uint32_t layers) {
  const std::string& pattern = shape.experts.pattern;
  if (pattern.size() > layers) {
    return {"expert_pattern",
            absl::StrCat("expert_pattern has ", pattern.size(),
                         " letters; it must have at most one for each of the ", layers, " layers")};
  }
  const bool known = pattern.find_first_not_of("ed") == std::string::npos;
  if (pattern.empty() || (known && pattern.find('e') != std::string::npos)) return {};
  return Fault("expert_pattern", absl::StrCat("'", absl::CEscape(pattern), "'"),
               "; its letters must be e (experts) and d (dense), with one e at least");
}

DecoderFault FaultOfExperts(const DecoderShape& shape, const DecoderFamily& family,
                            uint32_t layers) {
  const bool mixture = !family.experts.module.empty();
  const struct {
    absl::string_view key;
    bool said, has;
  } keys[] = {
      {"experts", shape.experts.count != 0, mixture},
      {"experts_per_token", shape.experts.per_token != 0, mixture},
      {"expert_hidden", shape.experts.hidden != 0, family.has_dense_layers},
      {"expert_pattern", !shape.experts.pattern.empty(), family.has_dense_layers},
      {"experts_normalised", shape.experts.normalised, family.may_normalise},
      {"router_loss", shape.experts.router_loss != 0, mixture},
      {"qkv_clip", shape.qkv_clip != 0, family.clips},
  };
  for (const auto& one : keys) {
    if (one.said && !one.has) return NotOf(shape, one.key);
  }
  if (!mixture) return {};
  if (shape.experts.count < 1 || shape.experts.count > kMostExperts) {
    return Fault("experts", shape.experts.count,
                 absl::StrCat("; it must be 1-", kMostExperts, " with family '", family.name, "'"));
  }
  if (shape.experts.per_token < 1 || shape.experts.per_token > shape.experts.count) {
    return Fault("experts_per_token", shape.experts.per_token,
                 absl::StrCat("; it must be 1-", shape.experts.count, ", the number of experts"));
  }
  if (shape.experts.hidden > kWidestExpert) {
    return Fault("expert_hidden", shape.experts.hidden,
                 absl::StrCat("; it must be 0-", kWidestExpert));
  }
  for (const auto& [key, value] : {std::make_pair("router_loss", shape.experts.router_loss),
                                   std::make_pair("qkv_clip", shape.qkv_clip)}) {
    if (!IsAtLeast(0, value)) return Fault(key, value, "; it must be 0 or more");
  }
  return FaultOfExpertPattern(shape, layers);
}

}  // namespace

const DecoderFamily* FindDecoderFamily(absl::string_view name) {
  for (const DecoderFamily& family : Families()) {
    if (family.name == name) return &family;
  }
  return nullptr;
}

std::vector<std::string> DecoderFamilyNames() {
  std::vector<std::string> names;
  for (const DecoderFamily& family : Families()) names.emplace_back(family.name);
  return names;
}

char LayerLetter(const DecoderShape& shape, uint32_t layer) {
  if (shape.layer_pattern.empty()) return shape.window != 0 ? 'l' : 'g';
  return shape.layer_pattern[layer % shape.layer_pattern.size()];
}

std::string ShortestPattern(const std::string& letters) {
  for (size_t length = 1; length < letters.size(); ++length) {
    bool good = true;
    for (size_t i = length; i < letters.size(); ++i)
      good = good && letters[i] == letters[i % length];
    if (good) return letters.substr(0, length);
  }
  return letters;
}

bool HasExperts(const DecoderShape& shape, uint32_t layer) {
  const std::string& pattern = shape.experts.pattern;
  return shape.experts.count != 0 && (pattern.empty() || pattern[layer % pattern.size()] == 'e');
}

DecoderFault FaultOfDecoder(const DecoderShape& shape, uint32_t layers) {
  const DecoderFamily* const family = FindDecoderFamily(shape.family);
  if (family == nullptr) {
    return Fault("family", absl::StrCat("'", absl::CEscape(shape.family), "'"),
                 absl::StrCat("; known are ", absl::StrJoin(DecoderFamilyNames(), ", ")));
  }
  if (shape.head_width > kWidestHead || shape.head_width % 2 != 0) {
    return Fault("head_width", shape.head_width,
                 absl::StrCat("; it must be even, at most ", kWidestHead));
  }
  if (shape.attention_bias && !family->may_bias) return NotOf(shape, "attention_bias");
  DecoderFault fault = FaultOfLayers(shape, *family, layers);
  if (fault.what.empty()) fault = FaultOfScaling(shape);
  if (fault.what.empty()) fault = FaultOfExperts(shape, *family, layers);
  return fault.what.empty() ? FaultOfGemma(shape, *family) : fault;
}

DecoderFault FaultOfNoDecoder(const DecoderShape& shape, absl::string_view kind) {
  DecoderFault fault;
  const DecoderShape plain;
  EachDecoderKey(
      [&](absl::string_view key, const auto& value, const auto& usual) {
        if (value == usual || !fault.what.empty()) return;
        fault = {std::string(key), absl::StrCat(key, " is not for kind '", kind,
                                                "'; leave it out, or take kind 'llama'")};
      },
      shape, plain);
  return fault;
}

uint64_t HeadWidth(const DecoderShape& shape, const BlockSize& size) {
  return shape.head_width != 0 ? shape.head_width : size.width / size.heads;
}

std::vector<BlockTensor> BlockTensors(const DecoderShape& shape, const BlockSize& size,
                                      uint32_t layer) {
  const DecoderFamily& family = *FindDecoderFamily(shape.family);
  const uint64_t head = HeadWidth(shape, size), width = size.width, hidden = size.hidden;
  const uint64_t queries = head * size.heads, keys = head * size.kv_heads;
  std::vector<BlockTensor> tensors;
  const auto norm = [&](const std::string& name, uint64_t of) {
    tensors.push_back({name + ".weight", {of}});
  };
  const auto linear = [&](const std::string& name, uint64_t out, uint64_t in, bool biased) {
    tensors.push_back({name + ".weight", {out, in}});
    if (biased) tensors.push_back({name + ".bias", {out}});
  };
  const bool biased = shape.attention_bias || family.query_bias;
  if (family.norms != Norms::kAfter) norm("input_layernorm", width);
  linear("self_attn.q_proj", queries, width, biased);
  linear("self_attn.k_proj", keys, width, biased);
  linear("self_attn.v_proj", keys, width, biased);
  linear("self_attn.o_proj", width, queries, shape.attention_bias);
  if (family.head_norms != HeadNorms::kNone) {
    const bool whole = family.head_norms == HeadNorms::kWhole;
    norm("self_attn.q_norm", whole ? queries : head);
    norm("self_attn.k_norm", whole ? keys : head);
  }
  norm("post_attention_layernorm", width);
  if (family.norms == Norms::kBoth) norm("pre_feedforward_layernorm", width);
  const auto network = [&](const std::string& place, const DecoderFamily::ExpertNames& names,
                           uint64_t inner) {
    linear(absl::StrCat(place, names.gate), inner, width, false);
    linear(absl::StrCat(place, names.up), inner, width, false);
    linear(absl::StrCat(place, names.down), width, inner, false);
  };
  if (HasExperts(shape, layer)) {
    const std::string module(family.experts.module);
    linear(module + ".gate", shape.experts.count, width, false);
    for (uint32_t i = 0; i < shape.experts.count; ++i) {
      network(absl::StrCat(module, ".experts.", i, "."), family.experts,
              shape.experts.hidden != 0 ? shape.experts.hidden : hidden);
    }
  } else {
    network("mlp.", {"mlp", "gate_proj", "up_proj", "down_proj"}, hidden);
  }
  if (family.norms != Norms::kBefore) norm("post_feedforward_layernorm", width);
  return tensors;
}

}  // namespace atolld
