// FolderLock: at most one process of Atoll works in a folder.
//
// Law: while it is held, no other FolderLock of this folder exists on this machine; the system
// releases it when its process ends, however that ends. DIR/lock names the process that holds it;
// the file stays, since removing it could take the lock of somebody who has just opened it.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace atolld {

inline constexpr char kLockFile[] = "lock";

class FolderLock {
 public:
  // `dir` exists. Waits for a holder that is ending (one that was just killed needs a moment to
  // give its memory back), but no longer than `patience`. UNAVAILABLE: another process works
  // there; the message names folder and process. Blocks.
  static absl::StatusOr<FolderLock> Take(const std::string& dir,
                                         absl::Duration patience = absl::Seconds(2));

  FolderLock(FolderLock&& other) noexcept;
  FolderLock& operator=(FolderLock&&) = delete;
  ~FolderLock();

 private:
  explicit FolderLock(int fd) : fd_(fd) {}
  int fd_;
};

// The process that works in a folder now; nothing: none does, or it is of another machine.
std::optional<pid_t> HolderOf(const std::string& dir);

}  // namespace atolld
