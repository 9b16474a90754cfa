// The tokenizer of a SentencePiece model file.
//
// Debian's SentencePiece library contains a copy of protobuf and exports its symbols. In a program
// that is also linked with the real protobuf, each of the two would call functions of the other and
// crash. The library is therefore linked only to a separate module, which is loaded when it is
// first needed, resolves symbols within itself first (RTLD_DEEPBIND), and is called through a C
// interface (sentencepiece_calls.h).
#pragma once

#include <memory>
#include <string>

#include "worker/data/tokenizer.h"

namespace atolld {

// Makes a tokenizer from the contents of a model file. Fails with INVALID_ARGUMENT if `file` is not
// a SentencePiece model, and with NOT_FOUND if the module is missing; the message says where it was
// searched.
absl::StatusOr<std::unique_ptr<Tokenizer>> MakeSentencePieceTokenizer(std::string file);

}  // namespace atolld
