// ScratchFolder: a temporary folder. It is removed when this object is destroyed or, if the process
// was killed before, when the next ScratchFolder with the same prefix is made.
//
//   PREFIX-XXXXXX        six characters that make the name unique; for its owner alone (0700)
//   PREFIX-XXXXXX/lock   held by the process that works in it (posix_folder_lock.h)
//
// Law: it never removes a folder in which a living process works, or a folder of another user. If
// the file system has no locks, this cannot be known, and the folders of earlier processes are
// left. Its calls block. Used by one thread.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "daemon/env/posix_folder_lock.h"

namespace atolld {

class ScratchFolder {
 public:
  // Removes the folders that earlier processes have left under this prefix, which is a path, and
  // makes a new folder. If it fails, the message names the folder that cannot be made.
  static absl::StatusOr<std::unique_ptr<ScratchFolder>> Make(const std::string& prefix);

  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  ScratchFolder(std::string path, FolderLock lock);

  const std::string path_;
  const FolderLock lock_;
};

}  // namespace atolld
