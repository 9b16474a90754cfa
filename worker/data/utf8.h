// Well-formed UTF-8 (Unicode 15, table 3-7): checked, read, written.
#pragma once

#include <cstdint>
#include <string>

#include "absl/types/span.h"

namespace atolld {

// The offset of the first byte that is not part of well-formed UTF-8; bytes.size() if there is
// none.
size_t FindInvalidUtf8(absl::Span<const uint8_t> bytes);

// The length of the well-formed sequence that `rest`, which is not empty, begins with; 0 if there
// is none.
size_t Utf8Length(absl::Span<const uint8_t> rest);

// The character of a well-formed sequence.
uint32_t ReadUtf8(absl::Span<const uint8_t> sequence);

// `character` is a Unicode scalar value.
void AppendUtf8(uint32_t character, std::string* out);

}  // namespace atolld
