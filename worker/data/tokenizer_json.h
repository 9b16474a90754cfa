// The tokenizer of a Hugging Face tokenizer.json: added tokens, normalizer, pre-tokenizer, model
// and decoder, one behind the other. Special tokens that a post-processor would put around a text
// are not put there.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "worker/data/tokenizer.h"

namespace atolld {

// `file` is the text that `json` was parsed from. INVALID_ARGUMENT: a part of it would encode
// otherwise than is known here; the message names the part.
absl::StatusOr<std::unique_ptr<Tokenizer>> ParseJsonTokenizer(const nlohmann::json& json,
                                                              std::string file);

}  // namespace atolld
