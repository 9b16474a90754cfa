// The tokenizer of a prepared folder's characters.json: {"characters": [code points, ascending]}.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>

#include "worker/data/tokenizer.h"

namespace atolld {

absl::StatusOr<std::unique_ptr<Tokenizer>> ParseCharTokenizer(const nlohmann::json& json);

}  // namespace atolld
