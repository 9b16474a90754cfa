// Unpacks text that is compressed with gzip or zstd, with any number of consecutive members or
// frames.
//
// The text is unpacked piece by piece into one unnamed file in $TMPDIR, or in /tmp, and the file is
// mapped, so that the text uses disk space rather than memory. The space is freed when the
// UnpackedText is destroyed, and also if the process crashes.
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
  // Returns true if a file that begins with `head` is in gzip or zstd format.
  static bool IsPacked(absl::string_view head);

  // Returns the name without .gz, .zst or .zstd, which is the name of the content.
  static absl::string_view NameOfContent(absl::string_view path);

  // Fails with UNAVAILABLE if no file can be created in the temporary folder.
  static absl::StatusOr<std::unique_ptr<UnpackedText>> Make();
  ~UnpackedText();
  UnpackedText(const UnpackedText&) = delete;
  UnpackedText& operator=(const UnpackedText&) = delete;

  // Appends the unpacked content of a file and returns the number of its bytes. Must be called
  // before Map, and by one thread. Fails with INVALID_ARGUMENT if the file is damaged or truncated,
  // and with RESOURCE_EXHAUSTED if the disk is full.
  absl::StatusOr<uint64_t> Append(const std::string& path);

  // The number of bytes so far.
  uint64_t size() const { return size_; }

  // Returns at most `most` bytes that begin at offset `first`.
  std::string Read(uint64_t first, size_t most) const;

  // Maps the file. Call this once, after the last Append.
  absl::Status Map();

  // All bytes. May be called from any thread after Map.
  absl::Span<const uint8_t> bytes() const { return mapped_.bytes(); }

 private:
  UnpackedText(int file, std::string folder) : file_(file), folder_(std::move(folder)) {}
  absl::Status Write(absl::Span<const char> bytes);
  absl::Status InflateAll(int from, const std::string& path);
  absl::Status DecompressAll(int from, const std::string& path);

  const int file_;
  const std::string folder_;  // The name of the temporary folder, for messages.
  uint64_t size_ = 0;
  MappedFile mapped_;
};

}  // namespace atolld
