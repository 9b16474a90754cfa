// Converts config.json of Hugging Face to our description of a model, and back. Pure. May be called
// from any thread.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "atoll/v1/run.pb.h"

namespace atolld {

// Reads GPT2LMHeadModel (with exact GELU and no biases: our "gpt"), LlamaForCausalLM and its
// relatives. `json` is the file's text. Fails with INVALID_ARGUMENT if a key asks for a computation
// that our models do not have; the message names the key.
absl::StatusOr<v1::ModelSpec> ParseHubConfig(absl::string_view json);

// Returns the text of config.json for a model. `dtype` is torch's name of the type, for example
// "float32".
std::string FormatHubConfig(const v1::ModelSpec& model, const std::string& dtype);

// Returns the [model] section of Atoll's config that describes this model.
std::string FormatModelSection(const v1::ModelSpec& model);

// Parses the result of FormatModelSection. Fails with INVALID_ARGUMENT if a line does not belong in
// such a section; the message names the line.
absl::StatusOr<v1::ModelSpec> ParseModelSection(absl::string_view text);

}  // namespace atolld
