// Checks, reads and writes UTF-8 (RFC 3629; Unicode 15, table 3-7).
//
// Pure. May be called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace atolld {

// Returns the length of the well-formed sequence at the start of `text`, or 0 if it does not begin
// with one. Overlong forms, halves of surrogate pairs and codes beyond Unicode are not well-formed.
// `text` must not be empty.
size_t Utf8Length(absl::string_view text);

// Returns the offset of the first byte that is not part of well-formed UTF-8, or text.size() if
// there is none.
size_t FindInvalidUtf8(absl::string_view text);

// Returns the character of a well-formed sequence.
uint32_t ReadUtf8(absl::string_view sequence);

// Appends a character, which must be a Unicode scalar value.
void AppendUtf8(uint32_t character, std::string* out);

struct Utf8Character {
  size_t bytes = 1;
  uint32_t code = 0;  // the byte itself if the character is not valid
  bool valid = false;
};

// Returns the first character of an untrusted text, which must not be empty. Each byte of a
// sequence that is not well-formed is returned as a character of its own.
Utf8Character Utf8FrontOf(absl::string_view text);

}  // namespace atolld
