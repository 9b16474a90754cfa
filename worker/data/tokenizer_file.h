// Tokenizers from files: which kind a file is, it says itself.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "worker/data/tokenizer.h"

namespace atolld {

// "bytes", or the path of a file, or of the folder that holds it: Hugging Face's tokenizer.json
// (docs/tokenizers.md), a SentencePiece model, the characters.json of a prepared folder. Where a
// tokenizer.json has a part that is not known and a tokenizer.model lies beside it, that one is
// taken, and its note says so.
//
// Its separator is the token `end_of_text`, where one is named. Else the one that the files beside
// it name (tokenizer_config.json, special_tokens_map.json, generation_config.json, config.json, in
// this order), the model's own, or one that is called as ends of text usually are.
//
// NOT_FOUND: no such file. INVALID_ARGUMENT: none of these, or with a part that is not known; no
// token is written like `end_of_text`; the message names the file and the part.
absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizer(const std::string& spec,
                                                         const std::string& end_of_text = "");

// The same of a file that is in memory, alone; `name` is for messages. It has no separator yet.
absl::StatusOr<std::unique_ptr<Tokenizer>> ParseTokenizer(const std::string& name,
                                                          std::string file);

// The name under which a prepared folder keeps the file of a tokenizer of this kind; empty: none.
std::string TokenizerFileName(const std::string& kind);

}  // namespace atolld
