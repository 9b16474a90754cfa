// ValueMemory: a vector of fp32 values that is zero at first, in memory or in a file.
//
// With a folder, the values lie in a file without a name in that folder, so the kernel can write
// them to the disk when the machine, or the process's control group, is short of memory, and read
// them again when they are used. Nothing of the file remains when the process dies. Without a
// folder, the values lie in anonymous memory, which needs room for all of them.
//
// The object is constant after construction. The values may be used by one thread at a time, and
// Release may be called meanwhile.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace atolld {

class ValueMemory {
 public:
  // `folder` is empty for anonymous memory. Fails with RESOURCE_EXHAUSTED if the machine does not
  // give that much memory or the folder's file system has no room; the message names the folder.
  static absl::StatusOr<std::unique_ptr<ValueMemory>> Make(uint64_t elements,
                                                           const std::string& folder);
  ~ValueMemory();
  ValueMemory(const ValueMemory&) = delete;
  ValueMemory& operator=(const ValueMemory&) = delete;

  absl::Span<float> values() const { return values_; }
  // Called when the values are not used for a while: values in a file are not resident until they
  // are used again. No value changes.
  void Release() const;

 private:
  ValueMemory(absl::Span<float> values, uint64_t bytes, bool in_file)
      : values_(values), bytes_(bytes), in_file_(in_file) {}

  const absl::Span<float> values_;
  const uint64_t bytes_;  // of the mapping
  const bool in_file_;
};

// Opens a file without a name in `folder` for reading and writing. Fails with RESOURCE_EXHAUSTED;
// the message names the folder.
absl::StatusOr<int> OpenNamelessFile(const std::string& folder);

// Takes the room on the disk for a part of the open file, which grows if it is shorter, so that a
// full disk is an error here and not a signal later. Fails with RESOURCE_EXHAUSTED.
absl::Status ReserveFile(int fd, uint64_t offset, uint64_t bytes);

}  // namespace atolld
