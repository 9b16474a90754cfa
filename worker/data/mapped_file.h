// A whole file as bytes in memory, mapped and never copied. Immutable; any thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace atolld {

class MappedFile {
 public:
  // NOT_FOUND: it cannot be opened. INVALID_ARGUMENT: it is no regular file. An empty file is well.
  static absl::StatusOr<MappedFile> Open(const std::string& path);

  MappedFile() = default;
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  absl::Span<const uint8_t> bytes() const { return bytes_; }

 private:
  absl::Span<const uint8_t> bytes_;
};

}  // namespace atolld
