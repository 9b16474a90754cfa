// The files of a folder of data: which of all that lies there is meant, in an order that no file
// system decides.
//
// Meant are regular files in it and in its folders, links to such included, in the order of their
// paths. What is hidden, as .git is, and what is neither file nor folder is left out and counted.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace atolld {

struct FolderFiles {
  std::vector<std::string> paths;
  std::vector<std::string> notes;  // a sentence for each kind of thing that was left out
};

// INVALID_ARGUMENT: a link leads nowhere, or there is no file; FAILED_PRECONDITION: a file or
// folder may not be read, or cannot be listed. The message names the one that is meant.
absl::StatusOr<FolderFiles> ListDataFolder(const std::string& path);

}  // namespace atolld
