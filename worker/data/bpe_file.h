// What a tokenizer.json with a byte-level BPE model says, checked.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"

namespace atolld {

struct BpeFile {
  struct Added {
    std::string content;
    uint32_t id = 0;
  };
  struct Merge {
    uint32_t left, right, joined;
  };

  std::vector<std::string> patterns;  // of the pre-tokenizer, in order
  bool add_prefix_space = false;
  bool ignore_merges = false;         // a word that is a token is never made by merges
  std::vector<std::string> bytes_of;  // by id; empty: no such token
  absl::flat_hash_map<std::string, uint32_t> id_of;  // of the model's tokens, by their bytes
  std::vector<Merge> merges;                         // by rank
  std::vector<Added> added;                          // found in the text before all else
};

// INVALID_ARGUMENT names the part that is missing, wrong or not known.
absl::StatusOr<BpeFile> ReadBpeFile(const nlohmann::json& json);

}  // namespace atolld
