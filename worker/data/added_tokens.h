// The added tokens of a tokenizer.json: found in the text before everything else.
//
// The law: which ones are found, and where, is what Hugging Face's tokenizers (0.23,
// src/tokenizer/added_vocabulary.rs) say: the leftmost, and of those the longest, first in the
// text as it is, then those that are `normalized` in what the normalizer has made of the rest.
// Immutable; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "worker/data/token_model.h"
#include "worker/data/tokenizer_normalizer.h"

namespace atolld {

class AddedTokens {
 public:
  // `list` is the file's added_tokens. INVALID_ARGUMENT names one that is not well-formed, or whose
  // id is not the one that Hugging Face gives it: that of the model's token of this name, else the
  // next behind the vocabulary.
  static absl::StatusOr<AddedTokens> Parse(const nlohmann::json& list, const TokenTable& table,
                                           const TextNormalizer& normalizer);

  // What takes a stretch of text between tokens: where it begins, and the text.
  using TakeText = std::function<absl::Status(size_t first, absl::string_view text)>;
  using TakeToken = std::function<void(uint32_t id)>;

  // Splits a text, in order, by the tokens that are not normalized, or by those that are.
  absl::Status Split(absl::string_view text, bool normalized, const TakeText& take_text,
                     const TakeToken& take_token) const;

  bool any_normalized() const { return !trees_[1].next.empty(); }

  // Text may be cut before a space between two letters, as far as added tokens go.
  bool cuts_at_spaces() const { return cuts_at_spaces_; }

  uint32_t end() const { return end_; }  // ids are below

  absl::optional<uint32_t> IdOf(const std::string& content) const;

  // Null: `id` is no added token.
  const std::string* ContentOf(uint32_t id) const;

  // As it stands in normalized text: what a decoder is given. Null: no added token.
  const std::string* WrittenOf(uint32_t id) const;

 private:
  struct Token {
    std::string content, written;
    uint32_t id = 0;
    bool single_word = false, left = false, right = false;
  };

  // Token texts as a tree of bytes: the node that a byte leads to, by node << 8 | byte, and the
  // index of the token that ends there, -1: none.
  struct Tree {
    absl::flat_hash_map<uint64_t, uint32_t> next;
    std::vector<int> ends{-1};
    std::array<bool, 256> begins{};  // some token begins with this byte

    void Add(absl::string_view text, int token);
    // The longest that `text` begins with; null: none.
    int Longest(absl::string_view text, size_t* length) const;
  };

  absl::Status Add(const nlohmann::json& one, size_t index, uint32_t id,
                   const TextNormalizer& normalizer);

  std::vector<Token> tokens_;
  absl::flat_hash_map<uint32_t, size_t> of_id_;
  absl::flat_hash_map<std::string, uint32_t> id_of_;
  Tree trees_[2];  // not normalized, normalized
  bool cuts_at_spaces_ = true;
  uint32_t end_ = 0;
};

}  // namespace atolld
