// The few file operations of the worker: it writes whole files durably, reads ranges of parameters,
// maps files, and computes the SHA-256 of their content.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace atolld {

// Replaces the content of `path` with the concatenation of `parts`. After a crash the file holds
// either all the old bytes or all the new ones. If this fails, it leaves no temporary file behind.
// Fails with RESOURCE_EXHAUSTED if the disk is full.
absl::Status WriteFileDurably(const std::string& path,
                              absl::Span<const absl::Span<const uint8_t>> parts);

// Makes renames and removals in `folder` durable; an empty name means the working folder.
absl::Status SyncFolder(const std::string& folder);

// Reads `elements` little-endian fp32 values from byte `offset` of a file. Fails with NOT_FOUND if
// there is no such file, and with INVALID_ARGUMENT if it ends too early.
absl::StatusOr<std::vector<float>> ReadFloats(const std::string& path, uint64_t offset,
                                              uint64_t elements);

// Fills `out` from an open file or pipe. Fails with DATA_LOSS if it ends too early. Error messages
// call it `origin`.
absl::Status ReadExactly(int descriptor, const std::string& origin, absl::Span<uint8_t> out);
template <typename T>
absl::Status ReadExactly(int descriptor, const std::string& origin, absl::Span<T> out) {
  return ReadExactly(
      descriptor, origin,
      absl::MakeSpan(reinterpret_cast<uint8_t*>(out.data()), out.size() * sizeof(T)));
}

// Reads a whole file. Fails with NOT_FOUND if it cannot be read.
absl::StatusOr<std::string> ReadWholeFile(const std::string& path);

// Returns the bytes of an array.
template <typename T>
absl::Span<const uint8_t> AsBytes(absl::Span<const T> values) {
  return absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(values.data()),
                             values.size() * sizeof(T));
}

// Computes the SHA-256 of bytes that arrive in parts. Used by one thread.
class Sha256Stream {
 public:
  Sha256Stream();
  ~Sha256Stream();
  Sha256Stream(const Sha256Stream&) = delete;
  Sha256Stream& operator=(const Sha256Stream&) = delete;

  Sha256Stream& Add(absl::Span<const uint8_t> bytes);
  Sha256Stream& Add(const std::string& text);

  // Returns the digest, 32 bytes. Add must not be called afterwards.
  std::string Finish();

 private:
  void* const context_;  // OpenSSL's digest context.
};

// Returns the SHA-256 of `bytes`, 32 bytes.
std::string Sha256Of(absl::Span<const uint8_t> bytes);

// Installs a handler for the case that a mapped file is truncated and the process then reads past
// its new end. The process then prints a line that names the file on standard error and exits with
// code 1, instead of dying of SIGBUS. Meant for the worker's program. May be called more than once.
void NameTruncatedFiles();

// A whole data file as bytes in memory, mapped and never copied. Immutable. May be used from any
// thread.
class MappedFile {
 public:
  // Fails with NOT_FOUND if the file cannot be opened, and with INVALID_ARGUMENT if it is not a
  // regular file. An empty file is accepted.
  static absl::StatusOr<MappedFile> Open(const std::string& path);

  MappedFile() = default;
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  absl::Span<const uint8_t> bytes() const { return bytes_; }

 private:
  absl::Span<const uint8_t> bytes_;
  void* place_ = nullptr;  // The file's entry in the table that NameTruncatedFiles uses.
};

}  // namespace atolld
