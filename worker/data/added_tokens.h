// The added tokens of a tokenizer.json, for which a text is searched before it is tokenized in any
// other way.
//
// The law: tokens are found where Hugging Face's tokenizers (0.23,
// src/tokenizer/added_vocabulary.rs) find them: the leftmost match counts, and the longest if
// several begin there. The original text is first searched for tokens that are not `normalized`.
// The rest is then normalized and searched for the other tokens. Immutable. May be used from any
// thread.
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
  // `list` is the value of added_tokens in the file. Fails with INVALID_ARGUMENT if a token is
  // malformed or has another id than Hugging Face would give it, which is the id of the model's
  // token of the same name, or else the next id after the vocabulary. The message names the token.
  static absl::StatusOr<AddedTokens> Parse(const nlohmann::json& list, const TokenTable& table,
                                           const TextNormalizer& normalizer);

  // Called with each piece of text between added tokens and the offset at which it begins.
  using TakeText = std::function<absl::Status(size_t first, absl::string_view text)>;
  using TakeToken = std::function<void(uint32_t id)>;

  // Splits a text at the added tokens whose property `normalized` has this value, and calls
  // `take_text` and `take_token` in the order of the text.
  absl::Status Split(absl::string_view text, bool normalized, const TakeText& take_text,
                     const TakeToken& take_token) const;

  bool any_normalized() const { return !trees_[1].next.empty(); }

  // True if no added token prevents cutting a text before a space between two letters.
  bool cuts_at_spaces() const { return cuts_at_spaces_; }

  uint32_t end() const { return end_; }  // Returns a number above all ids.

  absl::optional<uint32_t> IdOf(const std::string& content) const;

  // Returns null if `id` is not an added token.
  const std::string* ContentOf(uint32_t id) const;

  // Returns the form of the token in normalized text, which a decoder takes as input; null if `id`
  // is not an added token.
  const std::string* WrittenOf(uint32_t id) const;

 private:
  struct Token {
    std::string content, written;
    uint32_t id = 0;
    bool single_word = false, left = false, right = false;
  };

  // Token texts as a tree of bytes. `next` maps node << 8 | byte to the node to which the byte
  // leads; `ends` has the index of the token that ends at each node, or -1.
  struct Tree {
    absl::flat_hash_map<uint64_t, uint32_t> next;
    std::vector<int> ends{-1};
    std::array<bool, 256> begins{};  // True for each byte with which some token begins.

    void Add(absl::string_view text, int token);
    // Returns the longest token with which `text` begins, or null if there is none.
    int Longest(absl::string_view text, size_t* length) const;
  };

  absl::Status Add(const nlohmann::json& one, size_t index, uint32_t id,
                   const TextNormalizer& normalizer);

  std::vector<Token> tokens_;
  absl::flat_hash_map<uint32_t, size_t> of_id_;
  absl::flat_hash_map<std::string, uint32_t> id_of_;
  // The first is for the tokens that are not normalized, the second for those that are.
  Tree trees_[2];
  bool cuts_at_spaces_ = true;
  uint32_t end_ = 0;
};

}  // namespace atolld
