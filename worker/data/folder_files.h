// Lists the files of a folder of data, in an order that does not depend on the file system.
//
// The data are the regular files in the folder and its subfolders, including links to such files,
// in the order of their paths. Hidden entries, such as .git, and entries that are neither files nor
// folders are left out and counted.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace atolld {

struct FolderFiles {
  std::vector<std::string> paths;
  std::vector<std::string> notes;  // A sentence for each kind of entry that was left out.
};

// Fails with INVALID_ARGUMENT if the target of a link does not exist or there are no files, and
// with FAILED_PRECONDITION if this process has no permission to read a file or folder, or a folder
// cannot be listed. The message names the file or folder.
absl::StatusOr<FolderFiles> ListDataFolder(const std::string& path);

// -----------------------------------------------------------------------------------------------

// Reads folders of token files that other programs have written: the shards of llm.c and Karpathy
// ("fineweb_train_000001.bin", "edufineweb_val_000000.npy"), and nanoGPT's train.bin and val.bin.
//
// The split of a file follows from the words in its name: "train" means training; "val", "valid",
// "validation", "dev" or "eval" means validation; files with "test" are left out. If no name has
// one of these words, all files together are one row of tokens, whose end is for validation.

struct TokenShards {
  std::vector<std::string> train;  // The training files, in the order of their names.
  // The validation files; if empty, the end of `train` is for validation.
  std::vector<std::string> validation;
  std::vector<std::string> notes;  // A sentence for each kind of file that was left out.
};

// Returns true if `path` is a folder that has token files directly in it, and not only in
// subfolders. Fails with INVALID_ARGUMENT if the folder also has text files and the names do not
// show which of the two is the data.
absl::StatusOr<bool> HoldsTokenShards(const std::string& path);

// Finds the token files of a folder. Fails with INVALID_ARGUMENT if there are none.
absl::StatusOr<TokenShards> FindTokenShards(const std::string& folder);

}  // namespace atolld
