// Converts config.json of the Llama family to our model of kind "llama", and back.
//
// A key that the architecture does not have is refused and not ignored, because it could change the
// computation or refer to custom code. Pure. May be called from any thread.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "atoll/v1/run.pb.h"

namespace atolld {

// Returns the values of model_type that ParseDecoderConfig accepts.
std::vector<std::string> DecoderModelTypes();

// The model_type of `config` must be one of DecoderModelTypes(). A missing key takes the default
// that the transformers library uses for this model_type. Fails with INVALID_ARGUMENT if a key asks
// for a computation that our models do not have; the message names the key.
absl::StatusOr<v1::ModelSpec> ParseDecoderConfig(const nlohmann::json& config);

// Returns the keys of config.json that are specific to a model of kind "llama", except for those of
// its vocabulary and of tied embeddings. transformers 4 and 5 can read them.
nlohmann::ordered_json FormatDecoderConfig(const v1::ModelSpec& model);

}  // namespace atolld
