// FolderLock: ensures that at most one process of Atoll works in a folder.
//
// Law: while a FolderLock exists, there is no other FolderLock of the same folder on this machine.
// The system releases the lock when the process ends, even if it crashes. The file DIR/lock names
// the process that holds the lock. The file is never removed, because its removal could break the
// lock of a process that has just opened it.
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
  // Takes the lock of `dir`, which must exist. If another process holds it, waits at most
  // `patience` for that process to end (a process that was just killed needs a moment to give its
  // memory back). Fails with UNAVAILABLE if another process still works in the folder; the message
  // names the folder and the process. This call blocks.
  static absl::StatusOr<FolderLock> Take(const std::string& dir,
                                         absl::Duration patience = absl::Seconds(2));

  FolderLock(FolderLock&& other) noexcept;
  FolderLock& operator=(FolderLock&&) = delete;
  ~FolderLock();

 private:
  explicit FolderLock(int fd) : fd_(fd) {}
  int fd_;
};

// Returns the process that works in the folder now; nullopt if there is none or it is on another
// machine.
std::optional<pid_t> HolderOf(const std::string& dir);

}  // namespace atolld
