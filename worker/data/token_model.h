// The model of a tokenizer.json: the vocabulary, and which of its tokens a word becomes.
//
// The law: the ids are those of Hugging Face's tokenizers (0.23, src/models) for the same word.
// Immutable; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace atolld {

inline constexpr uint64_t kMostIds = uint64_t{1} << 24;  // far above any vocabulary

// The tokens as the file writes them.
struct TokenTable {
  std::vector<std::string> of_id;  // empty: no such token
  absl::flat_hash_map<std::string, uint32_t> id_of;

  absl::optional<uint32_t> IdOf(const std::string& token) const;
};

class TokenModel {
 public:
  virtual ~TokenModel() = default;

  // "bpe" or "unigram".
  virtual std::string kind() const = 0;

  const TokenTable& table() const { return table_; }

  // The length of a first part of `word`, which is not empty, whose tokens do not depend on the
  // rest, nor those of the rest on it.
  virtual size_t EndOfPart(absl::string_view word) const { return word.size(); }

  // Appends the tokens of a word. INVALID_ARGUMENT: it holds what the model has no token for, and
  // the model has no token for that.
  virtual absl::Status Encode(absl::string_view word, std::vector<uint32_t>* out) const = 0;

  // Appends the token of a byte that belongs to no UTF-8. INVALID_ARGUMENT: there is none.
  virtual absl::Status EncodeByte(uint8_t byte, std::vector<uint32_t>* out) const = 0;

 protected:
  TokenTable table_;
};

}  // namespace atolld
