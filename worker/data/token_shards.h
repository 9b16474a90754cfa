// Folders of token files as other programs write them: llm.c's and Karpathy's shards
// ("fineweb_train_000001.bin", "edufineweb_val_000000.npy"), nanoGPT's train.bin and val.bin.
//
// The names say the split: files with "train" among their words train, those with "val", "valid",
// "validation", "dev" or "eval" validate, those with "test" are left out. Where no names do, all
// files are one row, whose tail validates.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace atolld {

struct TokenShards {
  std::vector<std::string> train;       // in the order of their names
  std::vector<std::string> validation;  // empty: the tail of `train`
  std::vector<std::string> notes;       // what was left out, a sentence each
};

// Whether `path` is a folder that holds token files itself, not only in its folders.
// INVALID_ARGUMENT: it holds text beside them, and no name says which of the two is meant.
absl::StatusOr<bool> HoldsTokenShards(const std::string& path);

// INVALID_ARGUMENT: there is none.
absl::StatusOr<TokenShards> FindTokenShards(const std::string& folder);

}  // namespace atolld
