// A safetensors file of anybody's: its tensors by name, read as fp32.
//
// Everything that its header says is checked against the file before any of it is used, so that any
// bytes are either a file whose tensors can be read or one line of what is wrong with them. The
// file is mapped, not read whole, and must not be changed meanwhile. Any thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace atolld {

struct StoredTensor {
  std::string dtype;  // of any that the format has
  std::vector<uint64_t> shape;
  uint64_t begin = 0, end = 0;  // bytes of the data that follow the header
};

// The header at the beginning of `bytes`, a whole file. DATA_LOSS says what is wrong: a length that
// the file has not, no JSON, a name twice, tensors out of the file's bounds, over each other or
// with bytes between them that are nobody's, a shape that its bytes are not.
struct SafetensorsHeader {
  std::map<std::string, StoredTensor> tensors;
  uint64_t data_begin = 0;  // in the file
};
absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(absl::Span<const uint8_t> bytes);

class SafetensorsFile {
 public:
  // NOT_FOUND: it cannot be opened. DATA_LOSS as above, with the path.
  static absl::StatusOr<std::unique_ptr<SafetensorsFile>> Open(const std::string& path);
  ~SafetensorsFile();

  const std::string& path() const { return path_; }
  const std::map<std::string, StoredTensor>& tensors() const { return header_.tensors; }
  absl::Span<const uint8_t> bytes() const { return bytes_; }

  // Of one of tensors(): as the file has them, at no particular alignment.
  absl::Span<const uint8_t> bytes(const StoredTensor& tensor) const {
    return bytes_.subspan(header_.data_begin + tensor.begin, tensor.end - tensor.begin);
  }

  // The values of tensors().at(name). INVALID_ARGUMENT: there is none of this name, its shape is
  // another, or its dtype is not read.
  absl::Status Read(const std::string& name, const std::vector<uint64_t>& shape,
                    absl::Span<float> out) const;

 private:
  SafetensorsFile(std::string path, absl::Span<const uint8_t> bytes)
      : path_(std::move(path)), bytes_(bytes) {}

  const std::string path_;
  const absl::Span<const uint8_t> bytes_;  // the mapping
  SafetensorsHeader header_;
};

}  // namespace atolld
