// ScratchFolder: a folder that is gone when its owner is: at the end of this object, or, where the
// process was killed before, when the next one is made under the same name.
//
//   PREFIX-XXXXXX        six characters that make the name its own; for its owner alone (0700)
//   PREFIX-XXXXXX/lock   held by the process that works in it (posix_folder_lock.h)
//
// Law: a folder that a living process works in is never removed, and none of another user. Where
// the file system has no locks nobody can tell, and what was left behind stays. Blocking; one
// thread.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "daemon/env/posix_folder_lock.h"

namespace atolld {

class ScratchFolder {
 public:
  // Removes what was left of earlier ones with this prefix, a path, and makes one. An error of the
  // disk names the folder that cannot be made.
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
