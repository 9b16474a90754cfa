// The implementation of Files in production, and what other users of descriptors share with it. It
// uses Linux system calls, and repeats them if a signal interrupts them.
//
// A failed fsync ends the process (env.h says why). Every error names the path and quotes the
// system's message. Thread-safe; the only state is the durations of fsyncs.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/env/env.h"
#include "daemon/env/machine_watch.h"

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

  const SyncTimes& sync_times() const { return *sync_times_; }

 private:
  absl::StatusOr<std::unique_ptr<WritableFile>> OpenToWrite(const std::string& path, int flags);
  absl::Status SyncParent(const std::string& directory);

  // Shared with the open files.
  const std::shared_ptr<SyncTimes> sync_times_ = std::make_shared<SyncTimes>();
};

// Called before much is written to `path`, which need not exist. Fails with RESOURCE_EXHAUSTED if
// its disk has less than `bytes` free; the message has both numbers. If nobody can say how much is
// free, it returns OK, and the writing tells.
absl::Status CheckRoomFor(const std::string& path, uint64_t bytes);

// Owns a file descriptor, and closes it.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}  // below 0: owns nothing
  ~Descriptor() { Reset(); }
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept;
  int get() const { return fd_; }
  int Release() { return std::exchange(fd_, -1); }  // It stays open.
  void Reset();                                     // closes it now

 private:
  int fd_;
};

struct Pipe {
  Descriptor read, write;
};

// Makes a pipe that is closed on exec. An error names `user`, the path for which it is made.
absl::StatusOr<Pipe> MakePipe(const std::string& user);

// Returns the status for a failed system call. `error` is errno, and `what` says what the call
// tried to do.
absl::Status ErrnoStatus(int error, absl::string_view path, absl::string_view what);

}  // namespace atolld
