#include "worker/hub/hub_config.h"

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "compression/base/status_macros.h"
#include "worker/base/manifest.h"
#include "worker/hub/json_text.h"

namespace atolld {
namespace {

using Json = nlohmann::json;

absl::Status Refuse(absl::string_view key, absl::string_view found, absl::string_view known) {
  return absl::InvalidArgumentError(
      absl::StrCat(key, " is ", absl::CEscape(found), "; what is read is ", known));
}

absl::Status Take32(const Json& config, const std::string& key, uint64_t usual, uint32_t* out) {
  ASSIGN_OR_RETURN(const uint64_t value, CountIn(config, key, usual));
  if (value > std::numeric_limits<uint32_t>::max()) {
    return Refuse(key, absl::StrCat(value), "below 2^32");
  }
  *out = static_cast<uint32_t>(value);
  return absl::OkStatus();
}

// A key that changes what is computed, at any other value than ours.
absl::Status MustBe(const Json& config, const std::string& key, bool expected, bool usual) {
  ASSIGN_OR_RETURN(const bool value, FlagIn(config, key, usual));
  if (value == expected) return absl::OkStatus();
  return Refuse(key, value ? "true" : "false", expected ? "true" : "false");
}

struct Shape {
  uint32_t layers = 0, heads = 0, width = 0, context = 0, vocabulary = 0, hidden = 0;
};

void SetShape(const Shape& shape, v1::ModelSpec* model) {
  model->set_layers(shape.layers);
  model->set_heads(shape.heads);
  model->set_width(shape.width);
  model->set_context(shape.context);
  model->set_vocabulary(shape.vocabulary);
}

absl::StatusOr<v1::ModelSpec> ParseGpt2(const Json& config) {
  v1::ModelSpec model;
  Shape shape;
  RETURN_IF_ERROR(Take32(config, "n_layer", 12, &shape.layers));
  RETURN_IF_ERROR(Take32(config, "n_head", 12, &shape.heads));
  RETURN_IF_ERROR(Take32(config, "n_embd", 768, &shape.width));
  RETURN_IF_ERROR(Take32(config, "n_positions", 1024, &shape.context));
  RETURN_IF_ERROR(Take32(config, "vocab_size", 50257, &shape.vocabulary));
  RETURN_IF_ERROR(Take32(config, "n_inner", uint64_t{4} * shape.width, &shape.hidden));
  RETURN_IF_ERROR(MustBe(config, "scale_attn_weights", true, true));
  RETURN_IF_ERROR(MustBe(config, "scale_attn_by_inverse_layer_idx", false, false));
  RETURN_IF_ERROR(MustBe(config, "add_cross_attention", false, false));
  SetShape(shape, &model);
  ASSIGN_OR_RETURN(const std::string gelu, TextIn(config, "activation_function", "gelu_new"));
  ASSIGN_OR_RETURN(const double epsilon, NumberIn(config, "layer_norm_epsilon", 1e-5));
  ASSIGN_OR_RETURN(const bool tied, FlagIn(config, "tie_word_embeddings", true));
  if (gelu == "gelu" && tied && epsilon == 1e-5 && shape.hidden == uint64_t{4} * shape.width) {
    model.set_kind("gpt");
    return model;
  }
  if (gelu != "gelu_new" && gelu != "gelu_pytorch_tanh") {
    return Refuse("activation_function", gelu, "gelu_new");
  }
  model.set_kind("gpt2");
  model.set_kv_heads(shape.heads);
  model.set_hidden(shape.hidden);
  model.set_norm_epsilon(epsilon);
  model.set_untied(!tied);
  return model;
}

absl::Status CheckRope(const Json& config, const std::string& key) {
  if (!config.contains(key) || config[key].is_null()) return absl::OkStatus();
  if (!config[key].is_object()) return Refuse(key, config[key].dump(), "an object");
  ASSIGN_OR_RETURN(const std::string old_name, TextIn(config[key], "type", "default"));
  ASSIGN_OR_RETURN(const std::string type, TextIn(config[key], "rope_type", old_name));
  ASSIGN_OR_RETURN(const double factor, NumberIn(config[key], "factor", 0));
  const bool by_factor = type == "linear" || type == "dynamic" || type == "llama3";
  if (type == "default" || (by_factor && factor == 1)) return absl::OkStatus();
  return Refuse(key, type, "default");
}

absl::StatusOr<v1::ModelSpec> ParseLlama(const Json& config) {
  v1::ModelSpec model;
  model.set_kind("llama");
  Shape shape;
  uint32_t kv_heads = 0, head = 0;
  RETURN_IF_ERROR(Take32(config, "num_hidden_layers", 32, &shape.layers));
  RETURN_IF_ERROR(Take32(config, "num_attention_heads", 32, &shape.heads));
  RETURN_IF_ERROR(Take32(config, "num_key_value_heads", shape.heads, &kv_heads));
  RETURN_IF_ERROR(Take32(config, "hidden_size", 4096, &shape.width));
  RETURN_IF_ERROR(Take32(config, "intermediate_size", 11008, &shape.hidden));
  RETURN_IF_ERROR(Take32(config, "max_position_embeddings", 2048, &shape.context));
  RETURN_IF_ERROR(Take32(config, "vocab_size", 32000, &shape.vocabulary));
  const uint32_t usual_head = shape.heads == 0 ? 0 : shape.width / shape.heads;
  RETURN_IF_ERROR(Take32(config, "head_dim", usual_head, &head));
  if (head != usual_head) {
    return Refuse("head_dim", absl::StrCat(head), "hidden_size / num_attention_heads");
  }
  RETURN_IF_ERROR(MustBe(config, "attention_bias", false, false));
  RETURN_IF_ERROR(MustBe(config, "mlp_bias", false, false));
  ASSIGN_OR_RETURN(const std::string activation, TextIn(config, "hidden_act", "silu"));
  if (activation != "silu") return Refuse("hidden_act", activation, "silu");
  ASSIGN_OR_RETURN(const double rotated, NumberIn(config, "partial_rotary_factor", 1));
  if (rotated != 1) return Refuse("partial_rotary_factor", absl::StrCat(rotated), "1");
  RETURN_IF_ERROR(CheckRope(config, "rope_scaling"));
  RETURN_IF_ERROR(CheckRope(config, "rope_parameters"));
  SetShape(shape, &model);
  model.set_kv_heads(kv_heads);
  model.set_hidden(shape.hidden);
  ASSIGN_OR_RETURN(double theta, NumberIn(config, "rope_theta", 10000));
  if (config.contains("rope_parameters") && config["rope_parameters"].is_object()) {
    ASSIGN_OR_RETURN(theta, NumberIn(config["rope_parameters"], "rope_theta", theta));
  }
  model.set_rope_theta(theta);
  ASSIGN_OR_RETURN(const double epsilon, NumberIn(config, "rms_norm_eps", 1e-6));
  model.set_norm_epsilon(epsilon);
  ASSIGN_OR_RETURN(const bool tied, FlagIn(config, "tie_word_embeddings", false));
  model.set_untied(!tied);
  return model;
}

}  // namespace

namespace {

// Weights that are stored as codes and scales are no numbers that could be read.
absl::Status CheckIsNotQuantized(const Json& config) {
  const auto found = config.find("quantization_config");
  if (found == config.end() || found->is_null() || found->empty()) return absl::OkStatus();
  std::string method = "of an unnamed method";
  if (found->is_object()) {
    ASSIGN_OR_RETURN(const bool four, FlagIn(*found, "load_in_4bit", false));
    ASSIGN_OR_RETURN(const bool eight, FlagIn(*found, "load_in_8bit", false));
    if (found->contains("load_in_4bit") && found->contains("load_in_8bit") && !four && !eight) {
      return absl::OkStatus();  // bitsandbytes that does nothing
    }
    ASSIGN_OR_RETURN(method, TextIn(*found, "quant_method", method));
  }
  return Refuse("quantization_config", method,
                "a model of plain weights: take the one that this was quantised from");
}

}  // namespace

absl::StatusOr<v1::ModelSpec> ParseHubConfig(absl::string_view text) {
  ASSIGN_OR_RETURN(const Json config, ParseJsonObject(text));
  ASSIGN_OR_RETURN(const std::string type, TextIn(config, "model_type", ""));
  RETURN_IF_ERROR(CheckIsNotQuantized(config));
  if (type != "gpt2" && type != "llama") return Refuse("model_type", type, "gpt2 or llama");
  ASSIGN_OR_RETURN(v1::ModelSpec model, type == "gpt2" ? ParseGpt2(config) : ParseLlama(config));
  RETURN_IF_ERROR(CheckModelSpec(model));
  return model;
}

std::string FormatHubConfig(const v1::ModelSpec& model, const std::string& dtype) {
  nlohmann::ordered_json config;
  if (model.kind() == "llama") {
    config = {{"architectures", {"LlamaForCausalLM"}},
              {"model_type", "llama"},
              {"hidden_size", model.width()},
              {"intermediate_size", model.hidden()},
              {"num_hidden_layers", model.layers()},
              {"num_attention_heads", model.heads()},
              {"num_key_value_heads", model.kv_heads()},
              {"head_dim", model.width() / model.heads()},
              {"max_position_embeddings", model.context()},
              {"hidden_act", "silu"},
              {"rms_norm_eps", model.norm_epsilon()},
              {"rope_theta", model.rope_theta()},
              {"attention_bias", false},
              {"attention_dropout", 0.0},
              {"mlp_bias", false}};
  } else {
    const bool plain = model.kind() == "gpt";
    config = {{"architectures", {"GPT2LMHeadModel"}},
              {"model_type", "gpt2"},
              {"n_embd", model.width()},
              {"n_inner", plain ? 4 * model.width() : model.hidden()},
              {"n_layer", model.layers()},
              {"n_head", model.heads()},
              {"n_positions", model.context()},
              {"n_ctx", model.context()},
              {"activation_function", plain ? "gelu" : "gelu_new"},
              {"layer_norm_epsilon", plain ? 1e-5 : model.norm_epsilon()},
              {"embd_pdrop", model.dropout()},
              {"resid_pdrop", model.dropout()},
              {"attn_pdrop", model.dropout()}};
  }
  config["vocab_size"] = model.vocabulary();
  config["tie_word_embeddings"] = !model.untied();
  config["torch_dtype"] = dtype;
  // No token has these meanings unless a tokenizer beside it says so.
  config["bos_token_id"] = nullptr;
  config["eos_token_id"] = nullptr;
  return config.dump(2) + "\n";
}

std::string FormatModelSection(const v1::ModelSpec& model) {
  std::string text = absl::StrFormat(
      "[model]\nkind = \"%s\"\nlayers = %d\nheads = %d\nwidth = %d\ncontext = %d\nvocabulary = "
      "%d\n",
      model.kind(), model.layers(), model.heads(), model.width(), model.context(),
      model.vocabulary());
  if (model.kind() == "gpt") return text;
  absl::StrAppendFormat(&text, "hidden = %d\ntied = %s\nnorm_epsilon = %.15g\n", model.hidden(),
                        model.untied() ? "false" : "true", model.norm_epsilon());
  if (model.kind() != "llama") return text;
  absl::StrAppendFormat(&text, "kv_heads = %d\nrope_theta = %.15g\n", model.kv_heads(),
                        model.rope_theta());
  return text;
}

namespace {

using SetKey = bool (*)(absl::string_view, v1::ModelSpec*);

template <void (v1::ModelSpec::*kSet)(uint32_t)>
bool SetCount(absl::string_view value, v1::ModelSpec* model) {
  uint32_t number = 0;
  const bool good = absl::SimpleAtoi(value, &number);
  (model->*kSet)(number);
  return good;
}

template <void (v1::ModelSpec::*kSet)(double)>
bool SetReal(absl::string_view value, v1::ModelSpec* model) {
  double number = 0;
  const bool good = absl::SimpleAtod(value, &number);
  (model->*kSet)(number);
  return good;
}

bool SetKind(absl::string_view value, v1::ModelSpec* model) {
  if (!absl::ConsumePrefix(&value, "\"") || !absl::ConsumeSuffix(&value, "\"")) return false;
  model->set_kind(std::string(value));
  return true;
}

bool SetTied(absl::string_view value, v1::ModelSpec* model) {
  model->set_untied(value == "false");
  return value == "true" || value == "false";
}

constexpr std::pair<absl::string_view, SetKey> kSectionKeys[] = {
    {"kind", &SetKind},
    {"layers", &SetCount<&v1::ModelSpec::set_layers>},
    {"heads", &SetCount<&v1::ModelSpec::set_heads>},
    {"width", &SetCount<&v1::ModelSpec::set_width>},
    {"context", &SetCount<&v1::ModelSpec::set_context>},
    {"vocabulary", &SetCount<&v1::ModelSpec::set_vocabulary>},
    {"hidden", &SetCount<&v1::ModelSpec::set_hidden>},
    {"tied", &SetTied},
    {"norm_epsilon", &SetReal<&v1::ModelSpec::set_norm_epsilon>},
    {"kv_heads", &SetCount<&v1::ModelSpec::set_kv_heads>},
    {"rope_theta", &SetReal<&v1::ModelSpec::set_rope_theta>}};

bool SetSectionKey(absl::string_view line, v1::ModelSpec* model) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(line, absl::MaxSplits('=', 1));
  for (const auto& [key, set] : kSectionKeys) {
    if (key == absl::StripAsciiWhitespace(parts.first)) {
      return set(absl::StripAsciiWhitespace(parts.second), model);
    }
  }
  return false;
}

}  // namespace

absl::StatusOr<v1::ModelSpec> ParseModelSection(absl::string_view text) {
  v1::ModelSpec model;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || line[0] == '#' || line == "[model]") continue;
    if (SetSectionKey(line, &model)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("the line ", absl::CEscape(line),
                     " is none of a [model] section that `atoll import` writes"));
  }
  if (model.kind() == "gpt2") model.set_kv_heads(model.heads());
  RETURN_IF_ERROR(CheckModelSpec(model));
  return model;
}

}  // namespace atolld
