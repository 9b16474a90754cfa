// Decoders of the Llama family: what each published relative has that Llama lacks, the tensors of
// one block, and which combinations of settings mean anything.
//
// The coordinator's config, the manifest and the model go by this one table. What is known of each
// family is what its implementation in Hugging Face's transformers computes. Pure functions, any
// thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace atolld {

// What a decoder has beside Llama's sizes. As it is made here, it is a Llama.
struct DecoderShape {
  std::string family = "llama";
  uint32_t head_width = 0;      // 0: width / heads
  bool attention_bias = false;  // of q, k, v and o; "qwen2" has those of q, k and v without it
  uint32_t window = 0;          // tokens that a local layer sees, its own among them
  // A letter a layer, over and over: 'g' sees all before it, 'l' the window; 'n' and 'm' are the
  // same without rotary positions. Empty: all layers are 'l' where there is a window, 'g'
  // otherwise.
  std::string layer_pattern;
  double local_rope_theta = 0;  // of local layers, which are not scaled then; 0: as the others
  uint32_t query_scalar = 0;    // scores are divided by its square root; 0: the head width
  std::string rope_scaling = "none";   // "linear", "llama3", "yarn"
  double rope_factor = 0;              // how much longer the context has become
  double rope_low = 0, rope_high = 0;  // llama3: low and high_freq_factor; yarn: beta_slow, _fast
  uint32_t rope_context = 0;           // llama3, yarn: tokens that the model was first trained with
  double rope_attention = 0;           // yarn: cos and sin are multiplied by it; 0: by the factor's
  double attention_cap = 0;            // scores s become cap tanh(s / cap); 0: they stay
  double logit_cap = 0;                // the same of logits
};

// What all models of a family have in common.
struct DecoderFamily {
  enum class Norms { kBefore, kAfter, kBoth };    // of attention and of the feed-forward part
  enum class HeadNorms { kNone, kHead, kWhole };  // of queries and keys: each head, or all as one

  absl::string_view name;
  Norms norms = Norms::kBefore;
  HeadNorms head_norms = HeadNorms::kNone;
  bool query_bias = false;  // q, k and v have biases
  bool may_bias = false;    // attention_bias may be set
  // Norms multiply by 1 + weight, embeddings are multiplied by the root of the width, the gate is
  // GELU's tanh approximation instead of SiLU.
  bool gemma = false;
  bool caps = false;
  bool local_theta = false;
  absl::string_view letters = "g";  // that its layer_pattern may have
  bool mixed = false;               // whether layers may differ
};

// Null: there is none of this name.
const DecoderFamily* FindDecoderFamily(absl::string_view name);

// In the order of the table.
std::vector<std::string> DecoderFamilyNames();

// The letter of a layer: see layer_pattern.
char LayerLetter(const DecoderShape& shape, uint32_t layer);
inline bool IsLocalLayer(char letter) { return letter == 'l' || letter == 'm'; }
inline bool HasPositions(char letter) { return letter == 'g' || letter == 'l'; }

struct DecoderFault {
  std::string key;   // of DecoderShape
  std::string what;  // begins with the key; empty: nothing is wrong
};

// What of `shape` no model of its family has, or has no meaning.
DecoderFault FaultOfDecoder(const DecoderShape& shape, uint32_t layers);

// Of a kind of model that is no such decoder: the first key that is set.
DecoderFault FaultOfNoDecoder(const DecoderShape& shape, absl::string_view kind);

struct BlockSize {
  uint64_t width, heads, kv_heads, hidden;
};

struct BlockTensor {
  std::string name;  // within the block: "self_attn.q_proj.weight"
  std::vector<uint64_t> shape;
};

// In the manifest's order, under Hugging Face's names. `shape` has no fault; heads is not 0.
std::vector<BlockTensor> BlockTensors(const DecoderShape& shape, const BlockSize& size);

uint64_t HeadWidth(const DecoderShape& shape, const BlockSize& size);

// visit("family", shape.family...) and so on with every key, in the order in which they are shown;
// `shapes` are one or several DecoderShapes, const or not.
template <typename Visitor, typename... Shapes>
void EachDecoderKey(const Visitor& visit, Shapes&... shapes) {
  visit("family", shapes.family...);
  visit("head_width", shapes.head_width...);
  visit("attention_bias", shapes.attention_bias...);
  visit("window", shapes.window...);
  visit("layer_pattern", shapes.layer_pattern...);
  visit("local_rope_theta", shapes.local_rope_theta...);
  visit("query_scalar", shapes.query_scalar...);
  visit("rope_scaling", shapes.rope_scaling...);
  visit("rope_factor", shapes.rope_factor...);
  visit("rope_low", shapes.rope_low...);
  visit("rope_high", shapes.rope_high...);
  visit("rope_context", shapes.rope_context...);
  visit("rope_attention", shapes.rope_attention...);
  visit("attention_cap", shapes.attention_cap...);
  visit("logit_cap", shapes.logit_cap...);
}

// From and to a v1::ModelSpec: there is nothing of a Llama in it, so that the records of runs of
// one are what they were.
template <typename Spec>
DecoderShape DecoderShapeOf(const Spec& model) {
  DecoderShape shape;
  const auto& spec = model.decoder();
  if (!spec.family().empty()) shape.family = spec.family();
  shape.head_width = spec.head_width();
  shape.attention_bias = spec.attention_bias();
  shape.window = spec.window();
  shape.layer_pattern = spec.layer_pattern();
  shape.local_rope_theta = spec.local_rope_theta();
  shape.query_scalar = spec.query_scalar();
  if (!spec.rope_scaling().empty()) shape.rope_scaling = spec.rope_scaling();
  shape.rope_factor = spec.rope_factor();
  shape.rope_low = spec.rope_low();
  shape.rope_high = spec.rope_high();
  shape.rope_context = spec.rope_context();
  shape.rope_attention = spec.rope_attention();
  shape.attention_cap = spec.attention_cap();
  shape.logit_cap = spec.logit_cap();
  return shape;
}

template <typename Spec>
void SetDecoderShape(const DecoderShape& shape, Spec* model) {
  model->clear_decoder();
  auto* spec = model->mutable_decoder();
  if (shape.family != "llama") spec->set_family(shape.family);
  spec->set_head_width(shape.head_width);
  spec->set_attention_bias(shape.attention_bias);
  spec->set_window(shape.window);
  spec->set_layer_pattern(shape.layer_pattern);
  spec->set_local_rope_theta(shape.local_rope_theta);
  spec->set_query_scalar(shape.query_scalar);
  if (shape.rope_scaling != "none") spec->set_rope_scaling(shape.rope_scaling);
  spec->set_rope_factor(shape.rope_factor);
  spec->set_rope_low(shape.rope_low);
  spec->set_rope_high(shape.rope_high);
  spec->set_rope_context(shape.rope_context);
  spec->set_rope_attention(shape.rope_attention);
  spec->set_attention_cap(shape.attention_cap);
  spec->set_logit_cap(shape.logit_cap);
  if (spec->ByteSizeLong() == 0) model->clear_decoder();
}

}  // namespace atolld
