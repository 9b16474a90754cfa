// Tokenizers from files: which kind a file is, it says itself.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "worker/data/tokenizer.h"

namespace atolld {

// "bytes", or the path of a file: Hugging Face's tokenizer.json with byte-level BPE, a
// SentencePiece model, the characters.json of a prepared folder. NOT_FOUND: no such file.
// INVALID_ARGUMENT: none of these, or with a part that is not known; the message names the file and
// the part.
absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizer(const std::string& spec);

// The same of a file that is in memory; `name` is for messages.
absl::StatusOr<std::unique_ptr<Tokenizer>> ParseTokenizer(const std::string& name,
                                                          std::string file);

// The name under which a prepared folder keeps the file of a tokenizer of this kind; empty: none.
std::string TokenizerFileName(const std::string& kind);

}  // namespace atolld
