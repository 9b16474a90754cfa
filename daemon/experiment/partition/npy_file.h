// NumPy's .npy files: header and rows, as numpy.lib.format documents versions 1.0 to 3.0.
//
// Only arrays in C order are read. Pure functions, any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace atolld {

struct NpyHeader {
  std::string type;             // "<f4"
  std::vector<uint64_t> shape;  // rows first
  uint64_t width = 0;           // bytes of an element
  uint64_t data_at = 0;         // where the elements begin

  uint64_t rows() const { return shape.empty() ? 0 : shape[0]; }
  uint64_t row_bytes() const;
};

// INVALID_ARGUMENT says what is wrong with it, or that its length is not what it says.
absl::StatusOr<NpyHeader> ReadNpyHeader(absl::string_view file);

// The header, version 1.0, of an array of these rows.
std::string NpyHeaderText(absl::string_view type, const std::vector<uint64_t>& shape);

// The whole number at `at`. INVALID_ARGUMENT: `type` is of no whole numbers.
absl::StatusOr<int64_t> NpyWholeNumber(absl::string_view type, absl::string_view at);

}  // namespace atolld
