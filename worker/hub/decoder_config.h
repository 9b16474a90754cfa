// config.json of the Llama family: which model of kind "llama" it is, and the reverse.
//
// A key that the architecture does not have is refused rather than passed over: it would change
// what is computed, or stands for somebody's own code. Pure functions; any thread.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "atoll/v1/run.pb.h"

namespace atolld {

// The model_type values that ParseDecoderConfig takes.
std::vector<std::string> DecoderModelTypes();

// `config` is of one of DecoderModelTypes(). A key that is not there has the value that
// transformers gives it for this model_type. INVALID_ARGUMENT names the key that says something
// which our models do not compute.
absl::StatusOr<v1::ModelSpec> ParseDecoderConfig(const nlohmann::json& config);

// What tells a model of kind "llama" from others of its family; not its vocabulary, and not whether
// it is tied. transformers 4 and 5 read it.
nlohmann::ordered_json FormatDecoderConfig(const v1::ModelSpec& model);

// INVALID_ARGUMENT: "KEY is FOUND; what is read is KNOWN".
absl::Status RefuseKey(absl::string_view key, absl::string_view found, absl::string_view known);

}  // namespace atolld
