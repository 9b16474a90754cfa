// How Hugging Face keeps mixtures of experts: the keys of config.json, and the layout of files in
// which all experts of a layer share one tensor.
//
// Pure. May be called from any thread.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/optional.h"
#include "compression/base/decoder.h"

namespace atolld {

// Returns the keys of config.json that describe the mixtures of a family; none if it has no
// mixtures.
std::vector<std::string> ExpertKeys(const DecoderFamily& family);

// Reads the keys of mixtures into `shape`; does nothing for a family without mixtures. `hidden` is
// the width of a dense layer. Missing keys take transformers' defaults. The balance loss is taken
// over if the config asks for the router's logits, since transformers adds it to the loss only
// then. Fails with INVALID_ARGUMENT if a key asks for a computation that our models do not have;
// the message names the key.
absl::Status ReadExperts(const nlohmann::json& config, const DecoderFamily& family, uint32_t layers,
                         uint32_t hidden, DecoderShape* shape);

// Adds the keys of mixtures to a config.json that transformers 4 and 5 can read.
void AddExperts(const DecoderShape& shape, uint32_t layers, uint32_t hidden,
                nlohmann::ordered_json* config);

// The place of a tensor in transformers 5's own layout, which save_pretrained writes with
// save_original_format=False. There gate_up_proj [experts, 2 hidden, width] has the gates and ups
// of all experts, and down_proj [experts, width, hidden] their downs.
struct TensorPlace {
  std::string name;
  std::vector<uint64_t> shape;  // of the whole tensor there
  uint64_t first = 0;           // where our tensor begins, counted in values
};

// Returns the place of the tensor with our `name` and shape; nothing if it is the same in both
// layouts.
absl::optional<TensorPlace> FusedPlaceOf(const DecoderShape& shape, const std::string& name,
                                         const std::vector<uint64_t>& tensor_shape);

}  // namespace atolld
