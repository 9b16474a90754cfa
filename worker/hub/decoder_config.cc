#include "worker/hub/decoder_config.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compression/base/decoder.h"
#include "compression/base/status_macros.h"
#include "worker/base/manifest.h"
#include "worker/hub/expert_layout.h"
#include "worker/hub/json_text.h"

namespace atolld {
namespace {

using Json = nlohmann::json;

constexpr uint32_t kNoWindow = 0;

// What transformers takes for a missing key, and the names of an architecture.
struct Architecture {
  const char* model_type;
  const char* family;
  const char* name;  // in `architectures`
  uint32_t layers, heads, kv_heads, head_width, width, hidden, context, vocabulary;
  double epsilon, theta;
  bool tied;
  uint32_t window;
  std::vector<std::string> more;  // keys that others lack
};

using Keys = std::vector<std::string>;

std::vector<Architecture> MakeArchitectures() {
  const Keys windows = {"use_sliding_window", "sliding_window", "layer_types", "max_window_layers"};
  const Keys gemma = {
      "query_pre_attn_scalar", "attn_logit_softcapping",      "final_logit_softcapping",
      "hidden_activation",     "use_bidirectional_attention", "sliding_window",
      "layer_types",           "cache_implementation"};
  const auto with = [](Keys keys, const Keys& more) {
    keys.insert(keys.end(), more.begin(), more.end());
    return keys;
  };
  return {
      {"llama", "llama", "LlamaForCausalLM", 32, 32, 0, 0, 4096, 11008, 2048, 32000, 1e-6, 10000,
       false, kNoWindow, with({"rope_interleaved", "is_llama_config"}, {})},
      {"mistral", "mistral", "MistralForCausalLM", 32, 32, 8, 0, 4096, 14336, 131072, 32000, 1e-6,
       10000, false, 4096, with({"sliding_window", "layer_types"}, {})},
      {"qwen2", "qwen2", "Qwen2ForCausalLM", 32, 32, 32, 0, 4096, 22016, 32768, 151936, 1e-6, 10000,
       false, 4096, with({"use_mrope"}, windows)},
      {"qwen3", "qwen3", "Qwen3ForCausalLM", 32, 32, 32, 128, 4096, 22016, 32768, 151936, 1e-6,
       10000, false, 4096, windows},
      {"smollm3", "smollm3", "SmolLM3ForCausalLM", 36, 16, 4, 0, 2048, 11008, 32768, 128256, 1e-6,
       2000000, true, kNoWindow, with({"no_rope_layers", "no_rope_layer_interval"}, windows)},
      {"olmo2", "olmo2", "Olmo2ForCausalLM", 32, 32, 0, 0, 4096, 11008, 2048, 50304, 1e-5, 10000,
       false, kNoWindow, with({}, {})},
      {"gemma2", "gemma2", "Gemma2ForCausalLM", 26, 8, 4, 256, 2304, 9216, 8192, 256000, 1e-6,
       10000, true, 4096, gemma},
      {"gemma3_text", "gemma3", "Gemma3ForCausalLM", 26, 8, 4, 256, 2304, 9216, 131072, 262208,
       1e-6, 1000000, true, 4096, with({"rope_local_base_freq", "sliding_window_pattern"}, gemma)},
      {"mixtral", "mixtral", "MixtralForCausalLM", 32, 32, 8, 0, 4096, 14336, 131072, 32000, 1e-5,
       1000000, false, kNoWindow, with({"sliding_window"}, {})},
      {"qwen3_moe", "qwen3_moe", "Qwen3MoeForCausalLM", 24, 32, 4, 0, 2048, 6144, 32768, 151936,
       1e-6, 10000, false, 4096,
       with({"use_sliding_window", "sliding_window", "max_window_layers"}, {})},
      {"olmoe", "olmoe", "OlmoeForCausalLM", 16, 16, 0, 0, 2048, 2048, 4096, 50304, 1e-5, 10000,
       false, kNoWindow, with({}, {})},
  };
}

const std::vector<Architecture>& Architectures() {
  static const auto* const all = new std::vector<Architecture>(MakeArchitectures());
  return *all;
}

// Returns the architecture with this name in `field`, or Llama's.
const Architecture& FindArchitecture(const char* Architecture::*field, const std::string& name) {
  for (const Architecture& one : Architectures()) {
    if (name == one.*field) return one;
  }
  return Architectures().front();
}

// The keys that are read here.
constexpr const char* kRead[] = {"architectures",
                                 "attention_bias",
                                 "auto_map",
                                 "head_dim",
                                 "hidden_act",
                                 "hidden_size",
                                 "intermediate_size",
                                 "max_position_embeddings",
                                 "mlp_bias",
                                 "model_type",
                                 "num_attention_heads",
                                 "num_hidden_layers",
                                 "num_key_value_heads",
                                 "original_max_position_embeddings",
                                 "partial_rotary_factor",
                                 "quantization_config",
                                 "rms_norm_eps",
                                 "rope_parameters",
                                 "rope_scaling",
                                 "rope_theta",
                                 "tie_word_embeddings",
                                 "vocab_size"};

// Keys that change no logit: they say how the model was made, is run or generates. Names that begin
// with an underscore, and those of tokens, are ignored as well.
constexpr const char* kPassedOver[] = {"attention_dropout",
                                       "bad_words_ids",
                                       "chunk_size_feed_forward",
                                       "do_sample",
                                       "dtype",
                                       "embd_pdrop",
                                       "finetuning_task",
                                       "hidden_dropout",
                                       "id2label",
                                       "initializer_range",
                                       "is_encoder_decoder",
                                       "label2id",
                                       "max_length",
                                       "neftune_noise_alpha",
                                       "output_attentions",
                                       "output_hidden_states",
                                       "output_scores",
                                       "pretraining_tp",
                                       "problem_type",
                                       "repetition_penalty",
                                       "resid_pdrop",
                                       "return_dict",
                                       "task_specific_params",
                                       "temperature",
                                       "tokenizer_class",
                                       "top_k",
                                       "top_p",
                                       "torch_dtype",
                                       "torchscript",
                                       "transformers.js_config",
                                       "transformers_version",
                                       "unsloth_fixed",
                                       "unsloth_version",
                                       "use_bfloat16",
                                       "use_cache"};

bool IsSaid(const Json& config, const std::string& key) {
  const auto found = config.find(key);
  return found != config.end() && !found->is_null();
}

template <size_t kCount>
bool Has(const char* const (&names)[kCount], const std::string& name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

absl::Status CheckKeys(const Json& config, const Architecture& architecture,
                       const DecoderFamily& family) {
  std::vector<std::string> more = ExpertKeys(family);
  more.insert(more.end(), architecture.more.begin(), architecture.more.end());
  for (const auto& [key, value] : config.items()) {
    if (value.is_null() || Has(kRead, key) || Has(kPassedOver, key) || key[0] == '_' ||
        absl::EndsWith(key, "_token_id")) {
      continue;
    }
    if (std::count(more.begin(), more.end(), key) > 0) continue;
    return RefuseKey(key, value.dump(),
                     absl::StrCat("a model of model_type ", architecture.model_type,
                                  ", which has no such key; take it out of config.json if it "
                                  "changes nothing"));
  }
  if (IsSaid(config, "auto_map") && config["auto_map"].contains("AutoModelForCausalLM")) {
    return RefuseKey("auto_map", config["auto_map"]["AutoModelForCausalLM"].dump(),
                     absl::StrCat("transformers' own ", architecture.name,
                                  ", not code that comes with a model"));
  }
  if (!IsSaid(config, "architectures")) return absl::OkStatus();
  // A model without its head says so; it is read if the head is tied.
  const std::string bare(absl::StrCat(
      absl::string_view(architecture.name).substr(0, std::string(architecture.name).size() - 11),
      "Model"));
  const std::string text_bare =
      absl::StrCat(std::string(bare, 0, bare.size() - 5), "TextModel");  // Gemma3TextModel
  for (const Json& name : config["architectures"]) {
    if (name == architecture.name || name == bare || name == text_bare) continue;
    return RefuseKey("architectures", name.dump(), architecture.name);
  }
  return absl::OkStatus();
}

absl::Status CheckActivation(const Json& config, const DecoderFamily& family) {
  if (!family.gemma) {
    ASSIGN_OR_RETURN(const std::string activation, TextIn(config, "hidden_act", "silu"));
    if (activation == "silu" || activation == "swish") return absl::OkStatus();
    return RefuseKey("hidden_act", activation, "silu");
  }
  // transformers passes over hidden_act there; that it says something else would be a mistake.
  const std::string ours = "gelu_pytorch_tanh";
  for (const char* key : {"hidden_activation", "hidden_act"}) {
    ASSIGN_OR_RETURN(const std::string activation, TextIn(config, key, ours));
    if (activation != ours) return RefuseKey(key, activation, ours);
  }
  return absl::OkStatus();
}

absl::Status CheckIsOurs(const Json& config, const Architecture& architecture,
                         const DecoderFamily& family) {
  RETURN_IF_ERROR(CheckKeys(config, architecture, family));
  for (const char* key :
       {"mlp_bias", "rope_interleaved", "use_bidirectional_attention", "use_mrope"}) {
    RETURN_IF_ERROR(MustBe(config, key, false, false));
  }
  if (!family.may_bias) RETURN_IF_ERROR(MustBe(config, "attention_bias", false, false));
  RETURN_IF_ERROR(CheckActivation(config, family));
  ASSIGN_OR_RETURN(const double rotated, NumberIn(config, "partial_rotary_factor", 1));
  if (rotated != 1) return RefuseKey("partial_rotary_factor", absl::StrCat(rotated), "1");
  if (family.caps) return absl::OkStatus();
  for (const char* key : {"attn_logit_softcapping", "final_logit_softcapping"}) {
    if (IsSaid(config, key)) return RefuseKey(key, config[key].dump(), "null");
  }
  return absl::OkStatus();
}

// Reads one set of rotary positions: an object in the form of rope_scaling or of rope_parameters.
class RopeReader {
 public:
  RopeReader(const Json& config, std::string where, const Json& rope)
      : config_(config), where_(std::move(where)), rope_(rope) {}

  // Sets the keys of `shape` that begin with rope_, and `theta` where it is said.
  absl::Status Read(DecoderShape* shape, double* theta) const {
    if (!rope_.is_object()) return RefuseKey(where_, rope_.dump(), "an object");
    for (const auto& [key, value] : rope_.items()) {
      if (value.is_null() || Has(kRopeKeys, key)) continue;
      if (IsOfKnownType()) {
        return RefuseKey(Key(key), value.dump(), "a scaling that has no such key");
      }
    }
    ASSIGN_OR_RETURN(*theta, NumberIn(rope_, "rope_theta", *theta));
    ASSIGN_OR_RETURN(const double rotated, NumberIn(rope_, "partial_rotary_factor", 1));
    if (rotated != 1) return RefuseKey(Key("partial_rotary_factor"), absl::StrCat(rotated), "1");
    ASSIGN_OR_RETURN(const std::string type, Type());
    ASSIGN_OR_RETURN(const double factor, NumberIn(rope_, "factor", 0));
    const bool neutral = type == "linear" || type == "llama3" || type == "dynamic";
    if (type == "default" || (neutral && factor == 1)) return absl::OkStatus();
    if (!IsOfKnownType()) return RefuseKey(where_, type, "default, linear, llama3 or yarn");
    RETURN_IF_ERROR(Need("factor"));
    shape->rope_scaling = type;
    shape->rope_factor = factor;
    if (type == "linear") return absl::OkStatus();
    RETURN_IF_ERROR(ReadContext(shape));
    return type == "llama3" ? ReadLlama3(shape) : ReadYarn(shape);
  }

 private:
  static constexpr const char* kRopeKeys[] = {"type",
                                              "rope_type",
                                              "rope_theta",
                                              "factor",
                                              "low_freq_factor",
                                              "high_freq_factor",
                                              "original_max_position_embeddings",
                                              "attention_factor",
                                              "beta_fast",
                                              "beta_slow",
                                              "mscale",
                                              "mscale_all_dim",
                                              "truncate",
                                              "partial_rotary_factor"};

  std::string Key(absl::string_view key) const { return absl::StrCat(where_, ".", key); }

  absl::StatusOr<std::string> Type() const {
    ASSIGN_OR_RETURN(const std::string old_name, TextIn(rope_, "type", "default"));
    return TextIn(rope_, "rope_type", old_name);
  }

  bool IsOfKnownType() const {
    const absl::StatusOr<std::string> type = Type();
    return type.ok() &&
           (*type == "default" || *type == "linear" || *type == "llama3" || *type == "yarn");
  }

  absl::Status Need(const std::string& key) const {
    if (IsSaid(rope_, key)) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(Key(key), " is missing, which its rope_type needs"));
  }

  // As transformers looks for it: beside, within, and then the whole context.
  absl::Status ReadContext(DecoderShape* shape) const {
    const std::string key = "original_max_position_embeddings";
    const Json& place = IsSaid(config_, key) ? config_ : rope_;
    if (IsSaid(place, key)) return ReadCount(place, key, 0, &shape->rope_context);
    return ReadCount(config_, "max_position_embeddings", 0, &shape->rope_context);
  }

  absl::Status ReadLlama3(DecoderShape* shape) const {
    RETURN_IF_ERROR(Need("low_freq_factor"));
    RETURN_IF_ERROR(Need("high_freq_factor"));
    ASSIGN_OR_RETURN(shape->rope_low, NumberIn(rope_, "low_freq_factor", 0));
    ASSIGN_OR_RETURN(shape->rope_high, NumberIn(rope_, "high_freq_factor", 0));
    return absl::OkStatus();
  }

  absl::Status ReadYarn(DecoderShape* shape) const {
    ASSIGN_OR_RETURN(const bool rounded, FlagIn(rope_, "truncate", true));
    if (!rounded) return RefuseKey(Key("truncate"), "false", "true");
    ASSIGN_OR_RETURN(shape->rope_low, NumberIn(rope_, "beta_slow", 1));
    ASSIGN_OR_RETURN(shape->rope_high, NumberIn(rope_, "beta_fast", 32));
    ASSIGN_OR_RETURN(shape->rope_attention, NumberIn(rope_, "attention_factor", 0));
    ASSIGN_OR_RETURN(const double scale, NumberIn(rope_, "mscale", 0));
    ASSIGN_OR_RETURN(const double scale_all, NumberIn(rope_, "mscale_all_dim", 0));
    if (shape->rope_attention != 0 || scale == 0 || scale_all == 0) return absl::OkStatus();
    const double of_one = 0.1 * std::log(shape->rope_factor);
    shape->rope_attention = (scale * of_one + 1) / (scale_all * of_one + 1);
    return absl::OkStatus();
  }

  const Json& config_;
  const std::string where_;
  const Json& rope_;
};

// transformers 5 keeps everything in rope_parameters; earlier versions had the base beside
// rope_scaling.
absl::Status ReadRope(const Json& config, DecoderShape* shape, double* theta) {
  ASSIGN_OR_RETURN(*theta, NumberIn(config, "rope_theta", *theta));
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (!IsSaid(config, key) || config[key].empty()) continue;
    return RopeReader(config, key, config[key]).Read(shape, theta);
  }
  return absl::OkStatus();
}

// In Gemma 3, layers that see all tokens have rotary positions of their own.
absl::Status ReadRopes(const Json& config, DecoderShape* shape, double* theta) {
  constexpr double kLocalTheta = 10000;
  ASSIGN_OR_RETURN(*theta, NumberIn(config, "rope_theta", *theta));
  ASSIGN_OR_RETURN(shape->local_rope_theta, NumberIn(config, "rope_local_base_freq", kLocalTheta));
  if (IsSaid(config, "rope_scaling")) {
    RETURN_IF_ERROR(RopeReader(config, "rope_scaling", config["rope_scaling"]).Read(shape, theta));
  }
  if (!IsSaid(config, "rope_parameters")) return absl::OkStatus();
  const Json& both = config["rope_parameters"];
  if (!both.is_object()) return RefuseKey("rope_parameters", both.dump(), "an object");
  for (const auto& [key, value] : both.items()) {
    const std::string where = absl::StrCat("rope_parameters.", key);
    if (key == "full_attention") {
      RETURN_IF_ERROR(RopeReader(config, where, value).Read(shape, theta));
    } else if (key == "sliding_attention") {
      DecoderShape local;
      RETURN_IF_ERROR(RopeReader(config, where, value).Read(&local, &shape->local_rope_theta));
      if (local.rope_scaling != "none") return RefuseKey(where, local.rope_scaling, "default");
    } else {
      return RefuseKey(where, value.dump(), "full_attention and sliding_attention");
    }
  }
  return absl::OkStatus();
}

// `key` is a list with one entry per layer, or is missing.
absl::StatusOr<std::vector<Json>> ListIn(const Json& config, const std::string& key,
                                         uint32_t layers) {
  if (!IsSaid(config, key)) return std::vector<Json>();
  if (!config[key].is_array() || config[key].size() < layers) {
    return absl::InvalidArgumentError(
        absl::StrCat(key, " must be a list with one entry a layer, of which there are ", layers));
  }
  return std::vector<Json>(config[key].begin(), config[key].begin() + layers);
}

// Returns true for each layer that sees only a window, if layer_types does not say it.
absl::StatusOr<std::vector<bool>> UsualWindows(const Json& config, const DecoderShape& shape,
                                               uint32_t layers,
                                               const std::vector<bool>& positions) {
  constexpr uint32_t kGemma2Every = 2, kGemma3Every = 6, kQwenFirst = 28;
  // Qwen3-MoE has max_window_layers in some files, and transformers does not read it.
  const bool all = !FindDecoderFamily(shape.family)->mixed;
  std::vector<bool> local(layers, all);
  uint32_t every = kGemma2Every, first = kQwenFirst;
  if (shape.family == "gemma3") {
    RETURN_IF_ERROR(ReadCount(config, "sliding_window_pattern", kGemma3Every, &every));
  }
  RETURN_IF_ERROR(ReadCount(config, "max_window_layers", kQwenFirst, &first));
  if (all) return local;
  for (uint32_t i = 0; i < layers; ++i) {
    if (absl::StartsWith(shape.family, "gemma")) local[i] = every == 0 || (i + 1) % every != 0;
    if (absl::StartsWith(shape.family, "qwen")) local[i] = i >= first;
    if (shape.family == "smollm3") local[i] = !positions[i];
  }
  return local;
}

absl::StatusOr<std::vector<bool>> ReadPositions(const Json& config, uint32_t layers) {
  constexpr uint32_t kEvery = 4;
  ASSIGN_OR_RETURN(const std::vector<Json> list, ListIn(config, "no_rope_layers", layers));
  uint32_t every = kEvery;
  RETURN_IF_ERROR(ReadCount(config, "no_rope_layer_interval", kEvery, &every));
  std::vector<bool> positions(layers, true);
  for (uint32_t i = 0; i < layers; ++i) {
    if (list.empty()) {
      positions[i] = every == 0 || (i + 1) % every != 0;
    } else if (list[i] == 0 || list[i] == 1) {
      positions[i] = list[i] == 1;  // despite its name
    } else {
      return RefuseKey("no_rope_layers", list[i].dump(), "a list of 0 and 1");
    }
  }
  return positions;
}

// Reads the window, and which layers see only the window.
absl::Status ReadLayers(const Json& config, const Architecture& architecture, uint32_t layers,
                        DecoderShape* shape) {
  const DecoderFamily& family = *FindDecoderFamily(shape->family);
  std::vector<bool> positions(layers, true);
  if (shape->family == "smollm3") {
    ASSIGN_OR_RETURN(positions, ReadPositions(config, layers));
  }
  uint32_t window = 0;
  const bool none = config.contains("sliding_window") && config["sliding_window"].is_null();
  if (!none) RETURN_IF_ERROR(ReadCount(config, "sliding_window", architecture.window, &window));
  const bool asks =
      std::count(architecture.more.begin(), architecture.more.end(), "use_sliding_window") > 0;
  ASSIGN_OR_RETURN(const bool used, FlagIn(config, "use_sliding_window", !asks));
  if (!used || family.letters == "g") window = 0;
  ASSIGN_OR_RETURN(std::vector<bool> local, UsualWindows(config, *shape, layers, positions));
  ASSIGN_OR_RETURN(const std::vector<Json> types, ListIn(config, "layer_types", layers));
  for (uint32_t i = 0; i < types.size(); ++i) {
    if (types[i] != "sliding_attention" && types[i] != "full_attention") {
      return RefuseKey("layer_types", types[i].dump(), "sliding_attention and full_attention");
    }
    const bool sliding = types[i] == "sliding_attention";
    if (!family.mixed && sliding != (window != 0)) {
      return RefuseKey(
          "layer_types", types[i].dump(),
          absl::StrCat("what sliding_window says of all layers of a ", architecture.model_type));
    }
    if (sliding && window == 0) {
      return RefuseKey("layer_types", types[i].dump(), "full_attention without a sliding_window");
    }
    local[i] = sliding;
  }
  if (family.local_theta && window == 0 && std::count(local.begin(), local.end(), true) > 0) {
    return RefuseKey("sliding_window", "null", "a number, since layer_types has sliding_attention");
  }
  std::string letters;
  for (uint32_t i = 0; i < layers; ++i) {
    const bool near = window != 0 && local[i];
    letters += positions[i] ? (near ? 'l' : 'g') : (near ? 'm' : 'n');
  }
  const bool any = letters.find_first_of("lm") != std::string::npos;
  shape->window = any ? window : 0;
  letters = ShortestPattern(letters);
  if (letters != (any ? "l" : "g")) shape->layer_pattern = letters;
  return absl::OkStatus();
}

absl::Status ReadGemma(const Json& config, const DecoderFamily& family, DecoderShape* shape) {
  if (!family.gemma) return absl::OkStatus();
  constexpr uint32_t kScalar = 256;
  RETURN_IF_ERROR(ReadCount(config, "query_pre_attn_scalar", kScalar, &shape->query_scalar));
  if (shape->query_scalar == 0) return RefuseKey("query_pre_attn_scalar", "0", "above 0");
  if (!family.caps) return absl::OkStatus();
  // null takes a cap away; a key that is not there leaves it as it was published.
  const auto cap = [&config](const std::string& key, double usual) -> absl::StatusOr<double> {
    return config.contains(key) ? NumberIn(config, key, 0) : usual;
  };
  constexpr double kAttentionCap = 50, kLogitCap = 30;
  ASSIGN_OR_RETURN(shape->attention_cap, cap("attn_logit_softcapping", kAttentionCap));
  ASSIGN_OR_RETURN(shape->logit_cap, cap("final_logit_softcapping", kLogitCap));
  return absl::OkStatus();
}

absl::Status ReadSizes(const Json& config, const Architecture& usual, v1::ModelSpec* model,
                       DecoderShape* shape) {
  uint32_t layers = 0, heads = 0, kv_heads = 0, head = 0, width = 0, hidden = 0, context = 0,
           vocabulary = 0;
  RETURN_IF_ERROR(ReadCount(config, "num_hidden_layers", usual.layers, &layers));
  RETURN_IF_ERROR(ReadCount(config, "num_attention_heads", usual.heads, &heads));
  const bool said = config.contains("num_key_value_heads") || usual.kv_heads == 0;
  RETURN_IF_ERROR(
      ReadCount(config, "num_key_value_heads", said ? heads : usual.kv_heads, &kv_heads));
  RETURN_IF_ERROR(ReadCount(config, "hidden_size", usual.width, &width));
  RETURN_IF_ERROR(ReadCount(config, "intermediate_size", usual.hidden, &hidden));
  RETURN_IF_ERROR(ReadCount(config, "max_position_embeddings", usual.context, &context));
  RETURN_IF_ERROR(ReadCount(config, "vocab_size", usual.vocabulary, &vocabulary));
  const uint32_t even = heads == 0 ? 0 : width / heads;
  const bool own = !config.contains("head_dim") && usual.head_width != 0;
  RETURN_IF_ERROR(ReadCount(config, "head_dim", own ? usual.head_width : even, &head));
  if (head != even) shape->head_width = head;
  if (head == 0 && even != 0) return RefuseKey("head_dim", "0", "above 0");
  if (layers > kMaxLayers) {
    return RefuseKey("num_hidden_layers", absl::StrCat(layers), absl::StrCat("1-", kMaxLayers));
  }
  model->set_layers(layers);
  model->set_heads(heads);
  model->set_kv_heads(kv_heads);
  model->set_width(width);
  model->set_hidden(hidden);
  model->set_context(context);
  model->set_vocabulary(vocabulary);
  return absl::OkStatus();
}

}  // namespace

std::vector<std::string> DecoderModelTypes() {
  std::vector<std::string> types;
  for (const Architecture& one : Architectures()) types.emplace_back(one.model_type);
  return types;
}

absl::StatusOr<v1::ModelSpec> ParseDecoderConfig(const Json& config) {
  ASSIGN_OR_RETURN(const std::string type, TextIn(config, "model_type", ""));
  const Architecture& architecture = FindArchitecture(&Architecture::model_type, type);
  DecoderShape shape;
  shape.family = architecture.family;
  const DecoderFamily& family = *FindDecoderFamily(shape.family);
  RETURN_IF_ERROR(CheckIsOurs(config, architecture, family));
  v1::ModelSpec model;
  model.set_kind("llama");
  RETURN_IF_ERROR(ReadSizes(config, architecture, &model, &shape));
  double theta = architecture.theta;
  RETURN_IF_ERROR(family.local_theta ? ReadRopes(config, &shape, &theta)
                                     : ReadRope(config, &shape, &theta));
  model.set_rope_theta(theta);
  ASSIGN_OR_RETURN(shape.attention_bias, FlagIn(config, "attention_bias", false));
  RETURN_IF_ERROR(ReadLayers(config, architecture, model.layers(), &shape));
  RETURN_IF_ERROR(ReadGemma(config, family, &shape));
  RETURN_IF_ERROR(ReadExperts(config, family, model.layers(), model.hidden(), &shape));
  ASSIGN_OR_RETURN(const double epsilon, NumberIn(config, "rms_norm_eps", architecture.epsilon));
  model.set_norm_epsilon(epsilon);
  ASSIGN_OR_RETURN(const bool tied, FlagIn(config, "tie_word_embeddings", architecture.tied));
  model.set_untied(!tied);
  SetDecoderShape(shape, &model);
  return model;
}

namespace {

using Out = nlohmann::ordered_json;

Out FormatRope(const DecoderShape& shape) {
  if (shape.rope_scaling == "none") return nullptr;
  Out rope = {{"rope_type", shape.rope_scaling}, {"factor", shape.rope_factor}};
  if (shape.rope_scaling == "linear") return rope;
  rope["original_max_position_embeddings"] = shape.rope_context;
  const bool yarn = shape.rope_scaling == "yarn";
  rope[yarn ? "beta_slow" : "low_freq_factor"] = shape.rope_low;
  rope[yarn ? "beta_fast" : "high_freq_factor"] = shape.rope_high;
  if (shape.rope_attention != 0) rope["attention_factor"] = shape.rope_attention;
  return rope;
}

void AddLayers(const v1::ModelSpec& model, const DecoderShape& shape, Out* config) {
  const Out window = shape.window != 0 ? Out(shape.window) : Out(nullptr);
  const DecoderFamily& family = *FindDecoderFamily(shape.family);
  if (!family.mixed && family.letters != "g") (*config)["sliding_window"] = window;
  if (shape.family == "qwen3_moe") {
    (*config)["use_sliding_window"] = shape.window != 0;
    (*config)["max_window_layers"] = 0;  // of the layers that have none, in transformers 4
  }
  if (!family.mixed) return;
  Out types = Out::array(), positions = Out::array();
  uint32_t first = model.layers();
  for (uint32_t layer = 0; layer < model.layers(); ++layer) {
    const char letter = LayerLetter(shape, layer);
    if (IsLocalLayer(letter)) first = std::min(first, layer);
    types.push_back(IsLocalLayer(letter) ? "sliding_attention" : "full_attention");
    positions.push_back(HasPositions(letter) ? 1 : 0);
  }
  (*config)["sliding_window"] = window;
  (*config)["layer_types"] = types;
  if (absl::StartsWith(shape.family, "gemma")) return;
  (*config)["use_sliding_window"] = shape.window != 0;
  if (shape.family == "smollm3") {
    (*config)["no_rope_layers"] = positions;
  } else {
    (*config)["max_window_layers"] = first;
  }
}

void AddGemma(const DecoderShape& shape, uint64_t head, Out* config) {
  (*config)["hidden_activation"] = "gelu_pytorch_tanh";
  (*config)["query_pre_attn_scalar"] = shape.query_scalar != 0 ? shape.query_scalar : head;
  const auto cap = [](double value) { return value != 0 ? Out(value) : Out(nullptr); };
  (*config)["attn_logit_softcapping"] = cap(shape.attention_cap);
  (*config)["final_logit_softcapping"] = cap(shape.logit_cap);
  if (shape.family == "gemma3") (*config)["rope_local_base_freq"] = shape.local_rope_theta;
}

}  // namespace

Out FormatDecoderConfig(const v1::ModelSpec& model) {
  const DecoderShape shape = DecoderShapeOf(model);
  const DecoderFamily& family = *FindDecoderFamily(shape.family);
  const Architecture& architecture = FindArchitecture(&Architecture::family, shape.family);
  const uint64_t head =
      HeadWidth(shape, {model.width(), model.heads(), model.kv_heads(), model.hidden()});
  Out config = {{"architectures", {architecture.name}},
                {"model_type", architecture.model_type},
                {"hidden_size", model.width()},
                {"intermediate_size", model.hidden()},
                {"num_hidden_layers", model.layers()},
                {"num_attention_heads", model.heads()},
                {"num_key_value_heads", model.kv_heads()},
                {"head_dim", head},
                {"max_position_embeddings", model.context()}};
  if (!family.gemma) config["hidden_act"] = "silu";
  config["rms_norm_eps"] = model.norm_epsilon();
  config["rope_theta"] = model.rope_theta();
  if (shape.rope_scaling != "none") config["rope_scaling"] = FormatRope(shape);
  if (family.may_bias) config["attention_bias"] = shape.attention_bias;
  config["attention_dropout"] = 0.0;
  if (shape.family == "llama" || shape.family == "smollm3") config["mlp_bias"] = false;
  if (shape.family != "llama") config["pad_token_id"] = nullptr;  // some have one that we may lack
  AddLayers(model, shape, &config);
  if (family.gemma) AddGemma(shape, head, &config);
  AddExperts(shape, model.layers(), model.hidden(), &config);
  return config;
}

}  // namespace atolld
