// GPT-2's alphabet (openai/gpt-2, encoder.py): a printable character for each byte, in which
// byte-level vocabularies write their tokens. A byte that is a printable Latin-1 character is
// written as that character; the other bytes are written as the characters from U+0100 on. Pure.
// May be called from any thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace atolld {

// Sets `bytes` to the bytes that are written as `token`. Returns false if a character of `token` is
// not in the alphabet.
bool BytesOfToken(absl::string_view token, std::string* bytes);

// Returns `bytes` written in the alphabet.
std::string TokenOfBytes(absl::string_view bytes);

}  // namespace atolld
