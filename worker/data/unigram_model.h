// The Unigram model of a tokenizer.json: of all divisions of a word into tokens it chooses the one
// with the largest sum of scores (Kudo 2018, arXiv:1804.10959), which Viterbi's algorithm finds.
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
  // Parses the model of a file. Fails with INVALID_ARGUMENT if a part is missing or wrong; the
  // message names it.
  static absl::StatusOr<std::unique_ptr<UnigramModel>> Parse(const nlohmann::json& model);

  std::string kind() const override { return "unigram"; }
  absl::Status Encode(absl::string_view word, std::vector<uint32_t>* out) const override;
  absl::Status EncodeByte(uint8_t byte, std::vector<uint32_t>* out) const override;

 private:
  // The best division of the word up to some offset. Its last token begins at `from`.
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

  std::vector<double> scores_;  // The score of each token, by id.
  double unknown_score_ = 0;
  absl::optional<uint32_t> unknown_;
  // The token of each byte of the form "<0x41>"; kNoPiece if there is none.
  std::array<uint32_t, 256> fallback_;
  // The tokens as a tree of bytes. next_ maps node << 8 | byte to the node to which the byte leads;
  // ends_ has the token that ends at each node.
  absl::flat_hash_map<uint64_t, uint32_t> next_;
  std::vector<uint32_t> ends_;
};

}  // namespace atolld
