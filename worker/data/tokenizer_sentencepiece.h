// The tokenizer of a SentencePiece model file.
#pragma once

#include <memory>
#include <string>

#include "worker/data/tokenizer.h"

namespace atolld {

// INVALID_ARGUMENT: the bytes are no such model.
absl::StatusOr<std::unique_ptr<Tokenizer>> MakeSentencePieceTokenizer(std::string file);

}  // namespace atolld
