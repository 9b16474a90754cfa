// MemoryFile: memory without a name, which this process shares with a child through a file
// descriptor.
//
// A child that inherits the descriptor can use the memory even as another user. It need not open a
// path in /proc, which another user or a program with capabilities may not do. The memory is empty
// until it is given a size (ftruncate). The object is constant after construction and may be used
// from any thread.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace atolld {

class MemoryFile {
 public:
  // The number that the descriptor has in a child, and the environment variable that gives it to
  // the child as "NUMBER:DEVICE:INODE". A program between the daemon and the worker may have closed
  // the descriptor, and its number may now be another file's; the device and the inode show that.
  static constexpr int kDescriptor = 3;
  static constexpr char kVariable[] = "ATOLL_MEMORY";

  // With a folder, the memory is a file without a name on the folder's disk, of which the kernel
  // keeps in memory what fits (value_memory.h). Fails with RESOURCE_EXHAUSTED if the kernel gives
  // no memory or the folder takes no file.
  static absl::StatusOr<std::shared_ptr<MemoryFile>> Make(const std::string& folder = "");
  ~MemoryFile();
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  int fd() const { return fd_; }
  bool on_disk() const { return on_disk_; }
  std::string variable() const;  // The value of kVariable for a child.

 private:
  MemoryFile(int fd, bool on_disk) : fd_(fd), on_disk_(on_disk) {}
  const int fd_;
  const bool on_disk_;
};

}  // namespace atolld
