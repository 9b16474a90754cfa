// Decodes the first character of an untrusted UTF-8 text (RFC 3629).
//
// Pure. May be called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace atolld {

struct Utf8Character {
  size_t bytes = 1;
  uint32_t code = 0;  // the byte itself if the character is not valid
  bool valid = false;
};

// Returns the first character of a text, which must not be empty. Overlong forms, halves of
// surrogate pairs and codes beyond Unicode are not valid; each of their bytes is returned as a
// character of its own.
Utf8Character Utf8FrontOf(absl::string_view text);

}  // namespace atolld
