// The files of production: Linux system calls, retried where a signal interrupts them.
//
// A failed fsync ends the process (env.h says why). Every error names the path and the system's own
// words. Any thread; no state.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "daemon/env/env.h"

namespace atolld {

class PosixFiles final : public Files {
 public:
  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<WritableFile>> CreatePrivate(const std::string& path) override;
  absl::StatusOr<bool> IsPrivate(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<WritableFile>> OpenToAppend(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<ReadableFile>> OpenToRead(const std::string& path) override;
  absl::Status Rename(const std::string& from, const std::string& to) override;
  absl::Status Remove(const std::string& path) override;
  absl::Status Truncate(const std::string& path, uint64_t size) override;
  absl::Status MakeDirectories(const std::string& path) override;
  absl::Status SyncDirectory(const std::string& directory) override;
  absl::StatusOr<std::vector<std::string>> List(const std::string& directory) override;
  bool Exists(const std::string& path) override;

 private:
  absl::Status SyncParent(const std::string& directory);
};

// The status for a failed system call: `what` says the attempt, `error` is errno.
absl::Status ErrnoStatus(int error, absl::string_view path, absl::string_view what);

}  // namespace atolld
