// Loads tokenizers from files. The kind of a tokenizer is recognised by the content of its file.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/data/tokenizer.h"

namespace atolld {

// `spec` is "bytes", or the path of a file or of the folder that holds it: Hugging Face's
// tokenizer.json (docs/tokenizers.md), a SentencePiece model, or the characters.json of a prepared
// folder. If a tokenizer.json has an unknown part and a tokenizer.model is in the same folder, the
// tokenizer.model is used instead, and the tokenizer's note says so.
//
// The separator is the token `end_of_text` if that is not empty. Otherwise it is the first of the
// following that exists: the token named by a file in the same folder (tokenizer_config.json,
// special_tokens_map.json, generation_config.json, config.json, in this order), the end of a text
// in the tokenizer's file itself, or a token with a name that is common for the end of a text.
//
// Fails with NOT_FOUND if the file does not exist, and with INVALID_ARGUMENT if the file has an
// unknown kind or an unknown part, or if no token is written as `end_of_text`; the message names
// the file and the part.
absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizer(const std::string& spec,
                                                         const std::string& end_of_text = "");

// Makes a tokenizer from the contents of one file. `name` is the file's name for messages. The
// separator of the result is not set.
absl::StatusOr<std::unique_ptr<Tokenizer>> ParseTokenizer(const std::string& name,
                                                          std::string file);

// Checks that data whose tokens `tokenizer` has made is not trained on a model of another
// tokenizer. `file` is the model's file that [model] `key` names; the tokenizer of that model is in
// the same folder, where `atoll import` puts it. Returns OK if `file` is empty, if its folder has
// no tokenizer, or if `tokenizer` is null because it is not known. Fails with FAILED_PRECONDITION
// if the folder has a tokenizer and none of its files has the digest of `tokenizer`; the message
// names both.
absl::Status CheckTokenizerBeside(absl::string_view key, const std::string& file,
                                  const Tokenizer* tokenizer);

// Returns the name of the tokenizer's file in a prepared folder, for a tokenizer of this kind;
// empty if this kind has no file.
std::string TokenizerFileName(const std::string& kind);

}  // namespace atolld
