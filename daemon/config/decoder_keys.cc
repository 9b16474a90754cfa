#include "daemon/config/decoder_keys.h"

#include <cstdint>

namespace atolld {
namespace {

constexpr uint32_t kLongestContext = 1u << 24;  // as FaultOfDecoder says
constexpr double kLargestFactor = 1e6;          // far above what anybody has tried

}  // namespace

std::vector<DecoderKey> DecoderKeys(DecoderShape* shape) {
  const std::string match = "Set it to match a published model; `atoll import` says how.";
  return {
      {"family", Text{&shape->family, TextForm::kOneOf, false, DecoderFamilyNames()},
       "which relative of Llama a model of kind 'llama' is",
       "Set it to go on with a model of that family. See models.md."},
      {"head_width", WholeNumber{&shape->head_width, 0, 65536},
       "values a head; even; 0: width / heads", match},
      {"attention_bias", Flag{&shape->attention_bias},
       "whether the four matrices of attention have biases", match},
      {"window", WholeNumber{&shape->window, 0, kLongestContext},
       "tokens that a local layer sees, its own among them; 0: no layer is local", match},
      {"layer_pattern", Text{&shape->layer_pattern, TextForm::kNames, true},
       "a letter a layer, over and over: g sees all, l the window; n and m are the same without "
       "positions; empty: all alike",
       match},
      {"local_rope_theta", RealNumber{&shape->local_rope_theta, 0, 1e12},
       "base of the rotary positions of gemma3's local layers; 0: 10000", match},
      {"query_scalar", WholeNumber{&shape->query_scalar, 0, 65536},
       "gemma's scores are divided by its square root; 0: head_width", match},
      {"rope_scaling",
       Text{&shape->rope_scaling, TextForm::kOneOf, false, {"none", "linear", "llama3", "yarn"}},
       "how rotary positions were stretched to a longer context", match},
      {"rope_factor", RealNumber{&shape->rope_factor, 0, kLargestFactor},
       "how many times longer the context has become", match},
      {"rope_low", RealNumber{&shape->rope_low, 0, kLargestFactor},
       "llama3's low_freq_factor, yarn's beta_slow", match},
      {"rope_high", RealNumber{&shape->rope_high, 0, kLargestFactor},
       "llama3's high_freq_factor, yarn's beta_fast", match},
      {"rope_context", WholeNumber{&shape->rope_context, 0, kLongestContext},
       "tokens of the context before it was stretched; for llama3 and yarn", match},
      {"rope_attention", RealNumber{&shape->rope_attention, 0, kLargestFactor},
       "yarn's attention_factor; 0: 0.1 ln(rope_factor) + 1", match},
      {"attention_cap", RealNumber{&shape->attention_cap, 0, kLargestFactor},
       "bound of gemma2's attention scores; 0: none", match},
      {"logit_cap", RealNumber{&shape->logit_cap, 0, kLargestFactor},
       "bound of gemma2's logits; 0: none", match},
  };
}

}  // namespace atolld
