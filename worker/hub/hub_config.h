// config.json of Hugging Face: which model of ours it is, and the reverse. Pure functions.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "atoll/v1/run.pb.h"

namespace atolld {

// GPT2LMHeadModel (with exact GELU and no biases: our "gpt"), LlamaForCausalLM and its relatives.
// `json` is the file's text. INVALID_ARGUMENT names the key that says something which our models do
// not compute.
absl::StatusOr<v1::ModelSpec> ParseHubConfig(absl::string_view json);

// `dtype` is torch's name, "float32".
std::string FormatHubConfig(const v1::ModelSpec& model, const std::string& dtype);

// The [model] section that makes this model, as `atoll` reads it.
std::string FormatModelSection(const v1::ModelSpec& model);

// The reverse. INVALID_ARGUMENT names the line that is none of such a section.
absl::StatusOr<v1::ModelSpec> ParseModelSection(absl::string_view text);

}  // namespace atolld
