// The BPE model of a tokenizer.json. It works either on bytes, as GPT-2's, or on characters, as in
// models converted from SentencePiece; in the latter a character without a token is encoded as its
// bytes.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "worker/data/token_model.h"

namespace atolld {

// Byte-pair merges: of all pairs of adjacent tokens in a word, the pair with the lowest rank (the
// leftmost such pair) is joined, and this is repeated until no pair has a rank (Sennrich et al.
// 2016, arXiv:1508.07909). After all pairs have been added it is immutable, and may be used from
// any thread.
class PairMerges {
 public:
  // Adds the pair `left`, `right`, which is joined to `joined`, with the next rank. If a pair is
  // added twice, its later rank counts, as in Hugging Face's table.
  void Add(uint32_t left, uint32_t right, uint32_t joined);

  // Joins the initial tokens of a word and appends the result to `out`. Takes time O(n log n).
  void Join(const std::vector<uint32_t>& tokens, std::vector<uint32_t>* out) const;

 private:
  struct Merge {
    uint32_t rank = 0;
    uint32_t joined = 0;
  };

  const Merge* Find(uint32_t left, uint32_t right) const;

  absl::flat_hash_map<uint64_t, Merge> merges_;  // The key is left << 32 | right.
  uint32_t ranks_ = 0;
};

class BpeModel final : public TokenModel {
 public:
  // If `*bytes` is true, words are bytes, and tokens are written in GPT-2's alphabet of bytes;
  // otherwise words are text. Sets `*bytes` to false if a part of the model needs text. Fails with
  // INVALID_ARGUMENT if a part of the model is missing, wrong or unknown; the message names the
  // part.
  static absl::StatusOr<std::unique_ptr<BpeModel>> Parse(const nlohmann::json& model, bool* bytes);

  std::string kind() const override { return "bpe"; }
  size_t EndOfPart(absl::string_view word) const override;
  absl::Status Encode(absl::string_view word, std::vector<uint32_t>* out) const override;
  absl::Status EncodeByte(uint8_t byte, std::vector<uint32_t>* out) const override;

 private:
  struct Merge {
    std::string left, right;
    uint32_t left_id, right_id, joined_id;
  };

  BpeModel() = default;
  absl::Status ReadFlags(const nlohmann::json& model);
  absl::Status ReadVocabulary(const nlohmann::json& model);
  absl::StatusOr<Merge> ReadMerge(const nlohmann::json& merge) const;
  absl::Status ReadMerges(const nlohmann::json& model);
  void NameBytes(bool* bytes);
  void FindCuts(const std::vector<Merge>& merges);
  absl::Status FirstOfBytes(absl::string_view word, std::vector<uint32_t>* tokens) const;
  absl::Status FirstOfText(absl::string_view word, std::vector<uint32_t>* tokens) const;
  bool AppendFallback(absl::string_view character, std::vector<uint32_t>* tokens) const;

  bool bytes_ = false;  // True if words are bytes.
  bool ignore_merges_ = false, byte_fallback_ = false, fuse_unknown_ = false;
  absl::optional<std::string> unknown_;  // The name of the unknown token.
  absl::optional<uint32_t> unknown_id_;  // Not set if the vocabulary lacks the token.
  // The prefix of symbols that do not begin a word, and the suffix of symbols that end a word.
  std::string prefix_, suffix_;
  // The token of each byte, from GPT-2's alphabet; kNoToken if there is none.
  std::array<uint32_t, 256> of_byte_;
  // The token of each byte of the form "<0x41>"; kNoToken if there is none.
  std::array<uint32_t, 256> fallback_;
  // The id of each token by its bytes. Only used if words are bytes.
  absl::flat_hash_map<std::string, uint32_t> id_of_bytes_;
  absl::flat_hash_map<uint32_t, uint32_t> of_character_;
  // Pairs of characters that are adjacent in a joined token, as left << 32 | right. A word may be
  // cut between any two other characters.
  absl::flat_hash_set<uint64_t> joined_;
  bool cuts_ = false;
  PairMerges pairs_;
};

}  // namespace atolld
