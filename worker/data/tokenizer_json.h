// The tokenizer of a Hugging Face tokenizer.json: added tokens, normalizer, pre-tokenizer, model
// and decoder, one after another. The special tokens that a post-processor would add around a text
// are not added.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "worker/data/tokenizer.h"

namespace atolld {

// `file` is the text from which `json` was parsed. Fails with INVALID_ARGUMENT if `json` has a part
// that this code does not support; the message names the part.
absl::StatusOr<std::unique_ptr<Tokenizer>> ParseJsonTokenizer(const nlohmann::json& json,
                                                              std::string file);

}  // namespace atolld
