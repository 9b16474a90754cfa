// The tokenizer of a SentencePiece model file.
//
// Debian's library carries a copy of protobuf inside that shows its names: linked into one program
// with the real protobuf, either would call the other's functions and crash. So it is the
// dependency of a module, loaded when it is first needed and opened with names of its own
// (RTLD_DEEPBIND), and spoken to in C (sentencepiece_calls.h).
#pragma once

#include <memory>
#include <string>

#include "worker/data/tokenizer.h"

namespace atolld {

// INVALID_ARGUMENT: the bytes are no such model. NOT_FOUND: the module is not there; says where it
// was looked for.
absl::StatusOr<std::unique_ptr<Tokenizer>> MakeSentencePieceTokenizer(std::string file);

}  // namespace atolld
