// The model of a tokenizer.json: its vocabulary, and the encoding of a word.
//
// The law: the ids are those of Hugging Face's tokenizers (0.23, src/models) for the same word.
// Immutable. May be used from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace atolld {

// The most ids that are accepted, far above any vocabulary.
inline constexpr uint64_t kMostIds = uint64_t{1} << 24;

// The tokens in the form in which the file writes them.
struct TokenTable {
  std::vector<std::string> of_id;  // The text of each id; empty if there is no token with this id.
  absl::flat_hash_map<std::string, uint32_t> id_of;

  absl::optional<uint32_t> IdOf(const std::string& token) const;
};

class TokenModel {
 public:
  virtual ~TokenModel() = default;

  // Returns "bpe" or "unigram".
  virtual std::string kind() const = 0;

  const TokenTable& table() const { return table_; }

  // Returns the length of a first part of `word` that can be encoded separately from the rest with
  // the same result. `word` must not be empty.
  virtual size_t EndOfPart(absl::string_view word) const { return word.size(); }

  // Appends the tokens of a word. Fails with INVALID_ARGUMENT if the model has no token for a part
  // of the word and has no unknown token.
  virtual absl::Status Encode(absl::string_view word, std::vector<uint32_t>* out) const = 0;

  // Appends the token of a byte that is not part of valid UTF-8. Fails with INVALID_ARGUMENT if the
  // model has no such token.
  virtual absl::Status EncodeByte(uint8_t byte, std::vector<uint32_t>* out) const = 0;

 protected:
  TokenTable table_;
};

// -----------------------------------------------------------------------------------------------

// GPT-2's alphabet (openai/gpt-2, encoder.py): a printable character for each byte, in which
// byte-level vocabularies write their tokens. A byte that is a printable Latin-1 character is
// written as that character; the other bytes are written as the characters from U+0100 on. Pure.
// May be called from any thread.

// Sets `bytes` to the bytes that are written as `token`. Returns false if a character of `token` is
// not in the alphabet.
bool BytesOfToken(absl::string_view token, std::string* bytes);

// Returns `bytes` written in the alphabet.
std::string TokenOfBytes(absl::string_view bytes);

}  // namespace atolld
