// GPT-2's alphabet (openai/gpt-2, encoder.py): a printable character for each byte, by which
// byte-level vocabularies write their tokens. Printable Latin-1 characters are themselves, the
// other bytes the characters from U+0100 on. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace atolld {

// The bytes that `token` spells; false: it holds a character that is no byte's.
bool BytesOfToken(absl::string_view token, std::string* bytes);

// The reverse.
std::string TokenOfBytes(absl::string_view bytes);

}  // namespace atolld
