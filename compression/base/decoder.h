// Decoder models that are related to Llama: the features that each published family has and Llama
// lacks, the tensors of one block, and the valid combinations of settings.
//
// The coordinator's config, the manifest and the model all use this one table. It describes each
// family according to its implementation in Hugging Face's transformers. Pure. May be called from
// any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace atolld {

// The settings of a mixture of experts, which is the feed-forward part of a layer.
struct ExpertShape {
  // How many networks a layer has, and how many of them compute each token; 0 means that there are
  // no mixtures.
  uint32_t count = 0, per_token = 0;
  uint32_t hidden = 0;  // the width of an expert; 0 means that of a dense layer
  // One letter for each layer; the pattern is repeated. An 'e' layer has experts, and a 'd' layer
  // is dense. If the pattern is empty, all layers have experts.
  std::string pattern;
  bool normalised = false;  // true if the weights of a token's experts are scaled to sum 1
  double router_loss = 0;   // the share of the balance loss in the loss of training
};

// The settings of a decoder other than the sizes that a Llama also has. A default DecoderShape is a
// Llama.
struct DecoderShape {
  std::string family = "llama";
  uint32_t head_width = 0;  // 0 means width / heads
  // Biases of q, k, v and o; "qwen2" has biases of q, k and v without this.
  bool attention_bias = false;
  uint32_t window = 0;  // the tokens that a local layer sees, including the current one
  // One letter for each layer; the pattern is repeated. A 'g' layer sees all earlier tokens, and an
  // 'l' layer sees those in the window; 'n' and 'm' are the same without rotary positions. If the
  // pattern is empty, all layers are 'l' if there is a window, and 'g' otherwise.
  std::string layer_pattern;
  // The theta of local layers, which then have no rope scaling; 0 means that they have the same
  // theta as the others.
  double local_rope_theta = 0;
  // Attention scores are divided by the square root of this; 0 means the head width.
  uint32_t query_scalar = 0;
  std::string rope_scaling = "none";  // or "linear", "llama3" or "yarn"
  double rope_factor = 0;             // the factor by which the context has become longer
  // For llama3: low_freq_factor and high_freq_factor; for yarn: beta_slow and beta_fast.
  double rope_low = 0, rope_high = 0;
  // For llama3 and yarn: the context of the first training, in tokens.
  uint32_t rope_context = 0;
  // For yarn: the factor of cos and sin; 0 derives it from rope_factor.
  double rope_attention = 0;
  double attention_cap = 0;  // a score s becomes cap tanh(s / cap); 0 means no cap
  double logit_cap = 0;      // the same cap for logits; 0 means no cap
  ExpertShape experts;
  double qkv_clip = 0;  // queries, keys and values are clipped to this size; 0 means no bound
};

// The properties that all models of a family share.
struct DecoderFamily {
  // The places of the norms around the attention and the feed-forward part.
  enum class Norms { kBefore, kAfter, kBoth };
  // The norms of queries and keys: per head, or over all heads.
  enum class HeadNorms { kNone, kHead, kWhole };
  // The names of a mixture's tensors: the module that holds router and experts, and an expert's
  // matrices. `module` is empty if the family has no mixtures.
  struct ExpertNames {
    absl::string_view module, gate, up, down;
  };

  absl::string_view name;
  Norms norms = Norms::kBefore;
  HeadNorms head_norms = HeadNorms::kNone;
  bool query_bias = false;  // true if q, k and v have biases
  bool may_bias = false;    // true if attention_bias may be set
  // True if norms multiply by 1 + weight, embeddings are multiplied by the square root of the
  // width, and the gate is the tanh approximation of GELU instead of SiLU.
  bool gemma = false;
  bool caps = false;
  bool local_theta = false;
  absl::string_view letters = "g";  // the letters that layer_pattern may have
  bool mixed = false;               // true if layers may differ
  ExpertNames experts;
  bool normalised = false;        // true if the weights of a token's experts always sum to 1
  bool may_normalise = false;     // true if experts_normalised may be set
  bool has_dense_layers = false;  // true if expert_hidden and expert_pattern may be set
  bool clips = false;             // true if qkv_clip may be set
};

// Returns null if there is no family of this name.
const DecoderFamily* FindDecoderFamily(absl::string_view name);

// Returns the names in the order of the table.
std::vector<std::string> DecoderFamilyNames();

// Returns the letter of a layer (see layer_pattern).
char LayerLetter(const DecoderShape& shape, uint32_t layer);
inline bool IsLocalLayer(char letter) { return letter == 'l' || letter == 'm'; }
inline bool HasPositions(char letter) { return letter == 'g' || letter == 'l'; }

// Returns the shortest pattern that makes these letters, one for each layer, if it is repeated.
std::string ShortestPattern(const std::string& letters);

// Returns true if the feed-forward part of the layer is a mixture of experts.
bool HasExperts(const DecoderShape& shape, uint32_t layer);

struct DecoderFault {
  std::string key;   // the key of DecoderShape that is wrong
  std::string what;  // a message that begins with the key; empty if nothing is wrong
};

// Returns a fault if `shape` has a setting that its family does not have, or that means nothing
// together with the others.
DecoderFault FaultOfDecoder(const DecoderShape& shape, uint32_t layers);

// For a kind of model that is not such a decoder, returns a fault that names the first key that is
// set.
DecoderFault FaultOfNoDecoder(const DecoderShape& shape, absl::string_view kind);

struct BlockSize {
  uint64_t width, heads, kv_heads, hidden;
};

struct BlockTensor {
  std::string name;  // the name within the block, such as "self_attn.q_proj.weight"
  std::vector<uint64_t> shape;
};

// Returns the tensors of one layer's block in the manifest's order, with Hugging Face's names.
// `shape` must have no fault, and heads must not be 0.
std::vector<BlockTensor> BlockTensors(const DecoderShape& shape, const BlockSize& size,
                                      uint32_t layer);

uint64_t HeadWidth(const DecoderShape& shape, const BlockSize& size);

// Calls visit("family", shapes.family...) and so on for every key, in the order in which keys are
// shown; `shapes` are one or several DecoderShapes, const or not.
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
  visit("experts", shapes.experts.count...);
  visit("experts_per_token", shapes.experts.per_token...);
  visit("expert_hidden", shapes.experts.hidden...);
  visit("expert_pattern", shapes.experts.pattern...);
  visit("experts_normalised", shapes.experts.normalised...);
  visit("router_loss", shapes.experts.router_loss...);
  visit("qkv_clip", shapes.qkv_clip...);
}

// DecoderShapeOf reads the shape from a v1::ModelSpec, and SetDecoderShape writes it. For a Llama
// the field `decoder` is not set, so that the records of existing Llama runs keep their bytes.
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
  shape.experts.count = spec.experts();
  shape.experts.per_token = spec.experts_per_token();
  shape.experts.hidden = spec.expert_hidden();
  shape.experts.pattern = spec.expert_pattern();
  shape.experts.normalised = spec.experts_normalised();
  shape.experts.router_loss = spec.router_loss();
  shape.qkv_clip = spec.qkv_clip();
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
  spec->set_experts(shape.experts.count);
  spec->set_experts_per_token(shape.experts.per_token);
  spec->set_expert_hidden(shape.experts.hidden);
  spec->set_expert_pattern(shape.experts.pattern);
  spec->set_experts_normalised(shape.experts.normalised);
  spec->set_router_loss(shape.experts.router_loss);
  spec->set_qkv_clip(shape.qkv_clip);
  if (spec->ByteSizeLong() == 0) model->clear_decoder();
}

}  // namespace atolld
