// Compressed text, unpacked: gzip and zstd, of any number of members or frames one behind the
// other.
//
// It is unpacked piece by piece into one file without a name in $TMPDIR, or /tmp, and mapped from
// there, so that it takes room on that disk and not in memory. The room is free again when the last
// who holds it lets go, and when the process ends, however it ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "worker/base/file_io.h"

namespace atolld {

class UnpackedText {
 public:
  // Whether a file that begins like this is of gzip or zstd.
  static bool IsPacked(absl::string_view head);

  // Its name without .gz, .zst or .zstd: what the content would be called.
  static absl::string_view NameOfContent(absl::string_view path);

  // UNAVAILABLE: no file can be made there.
  static absl::StatusOr<std::unique_ptr<UnpackedText>> Make();
  ~UnpackedText();
  UnpackedText(const UnpackedText&) = delete;
  UnpackedText& operator=(const UnpackedText&) = delete;

  // Before Map, and one thread: appends what a file holds, and returns how many bytes these are.
  // INVALID_ARGUMENT: it is damaged or cut short. RESOURCE_EXHAUSTED: the disk is full.
  absl::StatusOr<uint64_t> Append(const std::string& path);

  // Bytes so far.
  uint64_t size() const { return size_; }

  // Up to `most` bytes from `first` on.
  std::string Read(uint64_t first, size_t most) const;

  // Once, after the last Append.
  absl::Status Map();

  // After Map: all of it; any thread.
  absl::Span<const uint8_t> bytes() const { return mapped_.bytes(); }

 private:
  UnpackedText(int file, std::string folder) : file_(file), folder_(std::move(folder)) {}
  absl::Status Write(absl::Span<const char> bytes);
  absl::Status InflateAll(int from, const std::string& path);
  absl::Status DecompressAll(int from, const std::string& path);

  const int file_;
  const std::string folder_;  // for messages
  uint64_t size_ = 0;
  MappedFile mapped_;
};

}  // namespace atolld
