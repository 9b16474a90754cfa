// The tokenizer of a Hugging Face tokenizer.json with a byte-level BPE model: GPT-2's, Llama 3's
// and their like.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "worker/data/tokenizer.h"

namespace atolld {

// `file` is the text that `json` was parsed from. INVALID_ARGUMENT: a part of it would encode
// otherwise than is known here (a normaliser, another model); the message names the part.
absl::StatusOr<std::unique_ptr<Tokenizer>> ParseBpeTokenizer(const nlohmann::json& json,
                                                             std::string file);

}  // namespace atolld
