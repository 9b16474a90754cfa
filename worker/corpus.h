// The text that a run trains on: UTF-8 files read as bytes, a token a byte.
//
// A single file is memory-mapped; a folder is all regular files under it, in the order of their
// paths, joined by a newline. The first 1 - validation_fraction of the bytes train, the tail
// validates. Immutable; any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace atolld {

class Corpus {
 public:
  // NOT_FOUND: no such path. INVALID_ARGUMENT: empty; not UTF-8 (the message names the file and the
  // byte's offset).
  static absl::StatusOr<std::unique_ptr<Corpus>> Open(const std::string& path,
                                                      double validation_fraction);

  // A corpus of the given text, for callers that have it in memory.
  static absl::StatusOr<std::unique_ptr<Corpus>> FromText(std::string text,
                                                          double validation_fraction);

  ~Corpus();
  Corpus(const Corpus&) = delete;
  Corpus& operator=(const Corpus&) = delete;

  absl::Span<const uint8_t> train() const { return bytes_.first(split_); }
  absl::Span<const uint8_t> validation() const { return bytes_.subspan(split_); }

  // SHA-256 over all bytes, joining newlines included; 32 bytes.
  const std::string& digest() const { return digest_; }

 private:
  Corpus() = default;
  absl::Status Finish(const std::string& name, double validation_fraction);

  std::string text_;         // of a folder, or given
  void* mapping_ = nullptr;  // of a file
  absl::Span<const uint8_t> bytes_;
  size_t split_ = 0;
  std::string digest_;
};

// The offset of the first byte that is not part of well-formed UTF-8; bytes.size() if there is
// none.
size_t FindInvalidUtf8(absl::Span<const uint8_t> bytes);

}  // namespace atolld
