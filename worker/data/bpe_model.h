// The BPE model of a tokenizer.json: over GPT-2's bytes, or over characters with the bytes of
// those that have no token, as SentencePiece's models are written there.
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
#include "worker/data/pair_merges.h"
#include "worker/data/token_model.h"

namespace atolld {

class BpeModel final : public TokenModel {
 public:
  // Words are text, or, if `bytes`, the bytes that tokens write in GPT-2's alphabet. `bytes` is set
  // to false where the model's own parts need text. INVALID_ARGUMENT names the part that is
  // missing, wrong or not known.
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

  bool bytes_ = false;  // words are bytes
  bool ignore_merges_ = false, byte_fallback_ = false, fuse_unknown_ = false;
  absl::optional<std::string> unknown_;  // the token's name
  absl::optional<uint32_t> unknown_id_;  // none: model.vocab lacks it
  std::string prefix_, suffix_;          // of symbols that begin no word, or end one
  std::array<uint32_t, 256> of_byte_;    // GPT-2's; kNoToken: none
  std::array<uint32_t, 256> fallback_;   // "<0x41>"; kNoToken: none
  absl::flat_hash_map<std::string, uint32_t> id_of_bytes_;  // of whole tokens, if words are bytes
  absl::flat_hash_map<uint32_t, uint32_t> of_character_;
  // Characters that stand side by side in a joined token, left << 32 | right: a word may be cut
  // between all others.
  absl::flat_hash_set<uint64_t> joined_;
  bool cuts_ = false;
  PairMerges pairs_;
};

}  // namespace atolld
