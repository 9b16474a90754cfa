#include "worker/hub/hub_config.h"

#include <algorithm>
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
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "compression/base/decoder.h"
#include "compression/base/status_macros.h"
#include "worker/base/manifest.h"
#include "worker/hub/decoder_config.h"
#include "worker/hub/json_text.h"

namespace atolld {
namespace {

using Json = nlohmann::json;

absl::StatusOr<v1::ModelSpec> ParseGpt2(const Json& config) {
  v1::ModelSpec model;
  const struct {
    const char* key;
    uint32_t usual;
    void (v1::ModelSpec::*set)(uint32_t);
  } sizes[] = {{"n_layer", 12, &v1::ModelSpec::set_layers},
               {"n_head", 12, &v1::ModelSpec::set_heads},
               {"n_embd", 768, &v1::ModelSpec::set_width},
               {"n_positions", 1024, &v1::ModelSpec::set_context},
               {"vocab_size", 50257, &v1::ModelSpec::set_vocabulary}};
  for (const auto& [key, usual, set] : sizes) {
    uint32_t size = 0;
    RETURN_IF_ERROR(ReadCount(config, key, usual, &size));
    (model.*set)(size);
  }
  const uint64_t usual_hidden = uint64_t{4} * model.width();
  uint32_t hidden = 0;
  RETURN_IF_ERROR(ReadCount(config, "n_inner", usual_hidden, &hidden));
  RETURN_IF_ERROR(MustBe(config, "scale_attn_weights", true, true));
  RETURN_IF_ERROR(MustBe(config, "scale_attn_by_inverse_layer_idx", false, false));
  RETURN_IF_ERROR(MustBe(config, "add_cross_attention", false, false));
  ASSIGN_OR_RETURN(const std::string gelu, TextIn(config, "activation_function", "gelu_new"));
  ASSIGN_OR_RETURN(const double epsilon, NumberIn(config, "layer_norm_epsilon", 1e-5));
  ASSIGN_OR_RETURN(const bool tied, FlagIn(config, "tie_word_embeddings", true));
  if (gelu == "gelu" && tied && epsilon == 1e-5 && hidden == usual_hidden) {
    model.set_kind("gpt");
    return model;
  }
  if (gelu != "gelu_new" && gelu != "gelu_pytorch_tanh") {
    return RefuseKey("activation_function", gelu, "gelu_new");
  }
  model.set_kind("gpt2");
  model.set_kv_heads(model.heads());
  model.set_hidden(hidden);
  model.set_norm_epsilon(epsilon);
  model.set_untied(!tied);
  return model;
}

// Weights that are stored as codes and scales cannot be read as numbers.
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
  return RefuseKey("quantization_config", method,
                   "a model of plain weights: take the one that this was quantised from");
}

}  // namespace

absl::StatusOr<v1::ModelSpec> ParseHubConfig(absl::string_view text) {
  ASSIGN_OR_RETURN(const Json config, ParseJsonObject(text));
  ASSIGN_OR_RETURN(const std::string type, TextIn(config, "model_type", ""));
  RETURN_IF_ERROR(CheckIsNotQuantized(config));
  const std::vector<std::string> decoders = DecoderModelTypes();
  if (type != "gpt2" && std::find(decoders.begin(), decoders.end(), type) == decoders.end()) {
    return RefuseKey("model_type", type,
                     absl::StrCat("gpt2, ", absl::StrJoin(decoders, ", "),
                                  "; a run trains a model of any other type with [model] kind = "
                                  "\"huggingface\" and the folder as path, by atoll-hf-worker"));
  }
  ASSIGN_OR_RETURN(v1::ModelSpec model,
                   type == "gpt2" ? ParseGpt2(config) : ParseDecoderConfig(config));
  RETURN_IF_ERROR(CheckModelSpec(model));
  return model;
}

std::string FormatHubConfig(const v1::ModelSpec& model, const std::string& dtype) {
  nlohmann::ordered_json config;
  if (model.kind() == "llama") {
    config = FormatDecoderConfig(model);
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

namespace {

std::string TomlOf(const std::string& value) { return absl::StrCat("\"", value, "\""); }
std::string TomlOf(bool value) { return value ? "true" : "false"; }
std::string TomlOf(uint32_t value) { return absl::StrCat(value); }
// Writes the number as people do if that gives the same number, and in full otherwise.
std::string TomlOf(double value) {
  const std::string text = absl::StrFormat("%.15g", value);
  double back = 0;
  return absl::SimpleAtod(text, &back) && back == value ? text : absl::StrFormat("%.17g", value);
}

}  // namespace

std::string FormatModelSection(const v1::ModelSpec& model) {
  std::string text = absl::StrFormat(
      "[model]\nkind = \"%s\"\nlayers = %d\nheads = %d\nwidth = %d\ncontext = %d\nvocabulary = "
      "%d\n",
      model.kind(), model.layers(), model.heads(), model.width(), model.context(),
      model.vocabulary());
  if (model.kind() == "gpt") return text;
  absl::StrAppendFormat(&text, "hidden = %d\ntied = %s\nnorm_epsilon = %s\n", model.hidden(),
                        TomlOf(!model.untied()), TomlOf(model.norm_epsilon()));
  if (model.kind() != "llama") return text;
  absl::StrAppendFormat(&text, "kv_heads = %d\nrope_theta = %s\n", model.kv_heads(),
                        TomlOf(model.rope_theta()));
  const DecoderShape shape = DecoderShapeOf(model), plain;
  EachDecoderKey(
      [&text](absl::string_view key, const auto& value, const auto& usual) {
        if (value != usual) absl::StrAppend(&text, key, " = ", TomlOf(value), "\n");
      },
      shape, plain);
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

bool FromToml(absl::string_view value, std::string* out) {
  if (!absl::ConsumePrefix(&value, "\"") || !absl::ConsumeSuffix(&value, "\"")) return false;
  *out = std::string(value);
  return true;
}
bool FromToml(absl::string_view value, bool* out) { return absl::SimpleAtob(value, out); }
bool FromToml(absl::string_view value, uint32_t* out) { return absl::SimpleAtoi(value, out); }
bool FromToml(absl::string_view value, double* out) { return absl::SimpleAtod(value, out); }

bool SetKind(absl::string_view value, v1::ModelSpec* model) {
  return FromToml(value, model->mutable_kind());
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
  DecoderShape shape = DecoderShapeOf(*model);
  bool good = false;
  EachDecoderKey(
      [&](absl::string_view key, auto& value) {
        if (key != absl::StripAsciiWhitespace(parts.first)) return;
        good = FromToml(absl::StripAsciiWhitespace(parts.second), &value);
      },
      shape);
  SetDecoderShape(shape, model);
  return good;
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
                     " does not belong to a [model] section that `atoll import` writes"));
  }
  if (model.kind() == "gpt2") model.set_kv_heads(model.heads());
  RETURN_IF_ERROR(CheckModelSpec(model));
  return model;
}

}  // namespace atolld
