#include "worker/data/token_model.h"

#include <array>

#include "compression/base/utf8.h"

namespace atolld {

absl::optional<uint32_t> TokenTable::IdOf(const std::string& token) const {
  const auto found = id_of.find(token);
  if (found == id_of.end()) return absl::nullopt;
  return found->second;
}

// -----------------------------------------------------------------------------------------------

namespace {

constexpr uint32_t kAlphabetEnd = 512;  // its characters are below

// Returns the byte of each of the first characters, or -1.
const std::array<int, kAlphabetEnd>& ByteOfCharacter() {
  static const auto table = [] {
    std::array<int, kAlphabetEnd> bytes;
    bytes.fill(-1);
    size_t next = 256;
    for (size_t byte = 0; byte < 256; ++byte) {
      const bool printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte != 173);
      bytes[printable ? byte : next++] = static_cast<int>(byte);
    }
    return bytes;
  }();
  return table;
}

}  // namespace

bool BytesOfToken(absl::string_view token, std::string* bytes) {
  bytes->clear();
  for (size_t i = 0; i < token.size();) {
    const size_t length = Utf8Length(token.substr(i));
    if (length == 0) return false;
    const uint32_t character = ReadUtf8(token.substr(i, length));
    if (character >= kAlphabetEnd || ByteOfCharacter()[character] < 0) return false;
    bytes->push_back(static_cast<char>(ByteOfCharacter()[character]));
    i += length;
  }
  return true;
}

std::string TokenOfBytes(absl::string_view bytes) {
  static const auto characters = [] {
    std::array<uint32_t, 256> table{};
    for (uint32_t character = 0; character < kAlphabetEnd; ++character) {
      const int byte = ByteOfCharacter()[character];
      if (byte >= 0) table[static_cast<size_t>(byte)] = character;
    }
    return table;
  }();
  std::string token;
  for (const char byte : bytes) AppendUtf8(characters[static_cast<uint8_t>(byte)], &token);
  return token;
}

}  // namespace atolld
