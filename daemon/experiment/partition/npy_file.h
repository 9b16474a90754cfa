// Reads and writes the headers of NumPy's .npy files, in versions 1.0 to 3.0 as numpy.lib.format
// documents them.
//
// Only arrays in C order are read. Pure. May be called from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace atolld {

struct NpyHeader {
  std::string type;             // "<f4"
  std::vector<uint64_t> shape;  // the first dimension is the number of rows
  uint64_t width = 0;           // the bytes of an element
  uint64_t data_at = 0;         // the offset of the first element in the file

  uint64_t rows() const { return shape.empty() ? 0 : shape[0]; }
  uint64_t row_bytes() const;
};

// Fails with INVALID_ARGUMENT if the header is invalid or does not match the length of the file;
// the message says what is wrong.
absl::StatusOr<NpyHeader> ReadNpyHeader(absl::string_view file);

// Returns the header, in version 1.0, of an array with this type and shape.
std::string NpyHeaderText(absl::string_view type, const std::vector<uint64_t>& shape);

// Returns the number that the bytes at the start of `at` hold. Fails with INVALID_ARGUMENT if
// `type` is not a type of whole numbers.
absl::StatusOr<int64_t> NpyWholeNumber(absl::string_view type, absl::string_view at);

}  // namespace atolld
