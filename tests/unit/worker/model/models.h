// Small models of every kind, and the generator of the references' values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "atoll/v1/run.pb.h"
#include "compression/base/decoder.h"
#include "tests/unit/worker/training/fixtures.h"

namespace atolld {

// The generator used by make_gpt_reference.py, make_model_reference.py and, seeded by a name
// (FNV-1a), make_decoder_reference.py.
class Lcg {
 public:
  Lcg() = default;
  explicit Lcg(const std::string& name) : state_(2166136261u) {
    for (const char byte : name) state_ = (state_ ^ static_cast<uint8_t>(byte)) * 16777619u;
  }

  uint32_t Next() { return (state_ = state_ * 1664525u + 1013904223u) >> 8; }

 private:
  uint32_t state_ = 12345;
};

inline v1::ModelSpec TinyGpt2() {
  v1::ModelSpec model = TinySpec().model();
  model.set_kind("gpt2");
  model.set_heads(4);
  model.set_kv_heads(4);
  model.set_hidden(64);
  model.set_norm_epsilon(1e-5);
  return model;
}

// Returns a model with grouped queries and a head that is not tied to the embedding.
inline v1::ModelSpec TinyLlama() {
  v1::ModelSpec model = TinySpec().model();
  model.set_kind("llama");
  model.set_heads(4);
  model.set_kv_heads(2);
  model.set_hidden(24);
  model.set_untied(true);
  model.set_rope_theta(100);
  model.set_norm_epsilon(1e-5);
  return model;
}

// Returns a model of every architecture related to Llama, with the options in which it differs from
// Llama.
inline std::vector<v1::ModelSpec> TinyDecoders() {
  std::vector<v1::ModelSpec> models;
  const auto add = [&models](const DecoderShape& shape) {
    models.push_back(TinyLlama());
    models.back().set_untied(models.size() % 2 == 0);
    SetDecoderShape(shape, &models.back());
  };
  DecoderShape llama, mistral, qwen2, qwen3, smollm3, olmo2, gemma2, gemma3, mixtral, qwen3_moe,
      olmoe;
  llama.attention_bias = true;
  llama.rope_scaling = "llama3";
  llama.rope_factor = 8;
  llama.rope_low = 1;
  llama.rope_high = 4;
  llama.rope_context = 8;
  mistral.family = "mistral";
  mistral.window = 5;
  mistral.head_width = 6;
  qwen2.family = "qwen2";
  qwen2.window = 6;
  qwen2.layer_pattern = "gl";
  qwen2.rope_scaling = "yarn";
  qwen2.rope_factor = 4;
  qwen2.rope_low = 1;
  qwen2.rope_high = 32;
  qwen2.rope_context = 4;
  qwen2.rope_attention = 1.0648216253695715;
  qwen3.family = "qwen3";
  qwen3.head_width = 8;
  qwen3.rope_scaling = "linear";
  qwen3.rope_factor = 2;
  smollm3.family = "smollm3";
  smollm3.window = 3;
  smollm3.layer_pattern = "gm";
  olmo2.family = "olmo2";
  gemma2.family = "gemma2";
  gemma2.window = 4;
  gemma2.layer_pattern = "lg";
  gemma2.query_scalar = 12;
  gemma2.attention_cap = 50;
  gemma2.logit_cap = 30;
  gemma3.family = "gemma3";
  gemma3.window = 4;
  gemma3.head_width = 8;
  gemma3.query_scalar = 8;
  gemma3.local_rope_theta = 50;
  gemma3.layer_pattern = "lg";
  mixtral.family = "mixtral";
  mixtral.window = 5;
  mixtral.experts.count = 4;
  mixtral.experts.per_token = 2;
  mixtral.experts.router_loss = 0.02;
  qwen3_moe.family = "qwen3_moe";
  qwen3_moe.head_width = 8;
  qwen3_moe.experts.count = 5;
  qwen3_moe.experts.per_token = 3;
  qwen3_moe.experts.hidden = 12;
  qwen3_moe.experts.pattern = "de";
  qwen3_moe.experts.normalised = true;
  olmoe.family = "olmoe";
  olmoe.experts.count = 4;
  olmoe.experts.per_token = 2;
  olmoe.experts.router_loss = 0.01;
  olmoe.qkv_clip = 0.5;
  for (const DecoderShape* shape : {&llama, &mistral, &qwen2, &qwen3, &smollm3, &olmo2, &gemma2,
                                    &gemma3, &mixtral, &qwen3_moe, &olmoe}) {
    add(*shape);
  }
  return models;
}

// Those of them that are mixtures of experts: Mixtral, Qwen3-MoE and OLMoE.
inline std::vector<v1::ModelSpec> TinyMixtures() {
  std::vector<v1::ModelSpec> mixtures;
  for (const v1::ModelSpec& model : TinyDecoders()) {
    if (model.decoder().experts() != 0) mixtures.push_back(model);
  }
  return mixtures;
}

}  // namespace atolld
