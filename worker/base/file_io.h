// The few file operations of the worker: whole files written durably, ranges of parameters read,
// files mapped; and the SHA-256 of what is in them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace atolld {

// Replaces `path` by the concatenation of `parts`: after a crash it holds either the old bytes or
// all the new ones. Nothing is left behind by an error. RESOURCE_EXHAUSTED: the disk is full.
absl::Status WriteFileDurably(const std::string& path,
                              absl::Span<const absl::Span<const uint8_t>> parts);

// Makes renames and removals in `folder` durable; empty is the working folder.
absl::Status SyncFolder(const std::string& folder);

// `elements` little-endian fp32 values from byte `offset` of a file. NOT_FOUND: no such file;
// INVALID_ARGUMENT: it ends before.
absl::StatusOr<std::vector<float>> ReadFloats(const std::string& path, uint64_t offset,
                                              uint64_t elements);

// Fills `out` from an open file or pipe, called `origin` in messages. DATA_LOSS: it ends before.
absl::Status ReadExactly(int descriptor, const std::string& origin, absl::Span<uint8_t> out);
template <typename T>
absl::Status ReadExactly(int descriptor, const std::string& origin, absl::Span<T> out) {
  return ReadExactly(
      descriptor, origin,
      absl::MakeSpan(reinterpret_cast<uint8_t*>(out.data()), out.size() * sizeof(T)));
}

// A whole file. NOT_FOUND: it cannot be read.
absl::StatusOr<std::string> ReadWholeFile(const std::string& path);

// The bytes of an array.
template <typename T>
absl::Span<const uint8_t> AsBytes(absl::Span<const T> values) {
  return absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(values.data()),
                             values.size() * sizeof(T));
}

// SHA-256 over bytes that come in parts. One thread.
class Sha256Stream {
 public:
  Sha256Stream();
  ~Sha256Stream();
  Sha256Stream(const Sha256Stream&) = delete;
  Sha256Stream& operator=(const Sha256Stream&) = delete;

  Sha256Stream& Add(absl::Span<const uint8_t> bytes);
  Sha256Stream& Add(const std::string& text);

  // The 32 bytes; nothing may be added after.
  std::string Finish();

 private:
  void* const context_;  // OpenSSL's
};

// Of one piece.
std::string Sha256Of(absl::Span<const uint8_t> bytes);

// From here on, a read behind the end of a file that was cut short while it is mapped ends the
// process with exit code 1 and a line on standard error that names the file, and not with SIGBUS
// alone. For the worker's program; idempotent.
void NameTruncatedFiles();

// A whole file of data as bytes in memory, mapped and never copied. Immutable; any thread.
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
  void* place_ = nullptr;  // what NameTruncatedFiles knows of it
};

}  // namespace atolld
