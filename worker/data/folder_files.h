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

}  // namespace atolld
