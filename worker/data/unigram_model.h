// The Unigram model of a tokenizer.json: of all ways to make a word of tokens, the one whose scores
// have the largest sum (Kudo 2018, arXiv:1804.10959), found by Viterbi's algorithm.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "worker/data/token_model.h"

namespace atolld {

class UnigramModel final : public TokenModel {
 public:
  // INVALID_ARGUMENT names the part that is missing or wrong.
  static absl::StatusOr<std::unique_ptr<UnigramModel>> Parse(const nlohmann::json& model);

  std::string kind() const override { return "unigram"; }
  absl::Status Encode(absl::string_view word, std::vector<uint32_t>* out) const override;
  absl::Status EncodeByte(uint8_t byte, std::vector<uint32_t>* out) const override;

 private:
  // The best way to a place in the word: its last token begins at `from`.
  struct Way {
    double score = 0;
    uint32_t token = 0;
    size_t from = 0;
    bool found = false;
  };

  UnigramModel() = default;
  absl::Status ReadVocabulary(const nlohmann::json& model);
  void AddToTree(uint32_t id);
  absl::Status FindWays(absl::string_view word, std::vector<Way>* ways) const;
  absl::Status Append(absl::string_view part, std::vector<uint32_t>* out) const;

  std::vector<double> scores_;  // by id
  double unknown_score_ = 0;
  absl::optional<uint32_t> unknown_;
  std::array<uint32_t, 256> fallback_;  // "<0x41>"; kNoPiece: none
  // The tokens as a tree of bytes: the node that `byte` leads to from a node, by node << 8 | byte,
  // and the token that ends there.
  absl::flat_hash_map<uint64_t, uint32_t> next_;
  std::vector<uint32_t> ends_;
};

}  // namespace atolld
