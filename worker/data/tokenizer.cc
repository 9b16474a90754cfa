#include "worker/data/tokenizer.h"

#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "worker/base/file_io.h"

namespace atolld {
namespace {

constexpr uint32_t kByteTokens = 256;

class ByteTokenizer final : public Tokenizer {
 public:
  ByteTokenizer() : Tokenizer("") {}

  std::string kind() const override { return "bytes"; }
  uint32_t vocabulary() const override { return kByteTokens; }

  std::unique_ptr<Encoder> NewEncoder() const override {
    class Copier final : public Encoder {
      absl::Status Encode(absl::string_view text, std::vector<uint32_t>* out) override {
        out->reserve(out->size() + text.size());
        for (const char c : text) out->push_back(static_cast<uint8_t>(c));
        return absl::OkStatus();
      }
    };
    return std::make_unique<Copier>();
  }

  absl::StatusOr<std::string> Decode(absl::Span<const uint32_t> tokens) const override {
    std::string text;
    for (const uint32_t token : tokens) {
      if (token >= kByteTokens) {
        return absl::InvalidArgumentError(absl::StrCat("token ", token, " is not a byte"));
      }
      text.push_back(static_cast<char>(token));
    }
    return text;
  }
};

}  // namespace

std::string Describe(const Separator& separator) {
  if (!separator.token.has_value()) {
    return "a newline, since the tokenizer has no end of text that is known (end_of_text names "
           "one)";
  }
  return absl::StrCat("token ", *separator.token, ", \"", separator.text, "\", as ",
                      separator.said_by, " says");
}

Tokenizer::Tokenizer(std::string file)
    : file_(std::move(file)), digest_(file_.empty() ? "" : Sha256Stream().Add(file_).Finish()) {}

std::unique_ptr<Tokenizer> MakeByteTokenizer() { return std::make_unique<ByteTokenizer>(); }

namespace {

constexpr size_t kMostCharacters = 65536;  // ids fit two bytes
constexpr uint32_t kNoId = 0xffffffff;
constexpr uint32_t kCharacters = 0x110000;

bool IsScalar(uint32_t c) { return c < kCharacters && (c < 0xd800 || c > 0xdfff); }

class CharTokenizer final : public Tokenizer {
 public:
  CharTokenizer(std::string file, std::vector<uint32_t> characters)
      : Tokenizer(std::move(file)), characters_(std::move(characters)) {
    ids_.assign(size_t{characters_.back()} + 1, kNoId);
    for (size_t i = 0; i < characters_.size(); ++i) {
      ids_[characters_[i]] = static_cast<uint32_t>(i);
    }
  }

  std::string kind() const override { return "chars"; }
  uint32_t vocabulary() const override { return static_cast<uint32_t>(characters_.size()); }

  std::unique_ptr<Encoder> NewEncoder() const override {
    class Reader final : public Encoder {
     public:
      explicit Reader(const CharTokenizer& tokenizer) : tokenizer_(tokenizer) {}
      absl::Status Encode(absl::string_view text, std::vector<uint32_t>* out) override {
        return tokenizer_.Append(text, out);
      }

     private:
      const CharTokenizer& tokenizer_;
    };
    return std::make_unique<Reader>(*this);
  }

  absl::StatusOr<std::string> Decode(absl::Span<const uint32_t> tokens) const override {
    std::string text;
    for (const uint32_t token : tokens) {
      if (token >= characters_.size()) {
        return absl::InvalidArgumentError(absl::StrCat("token ", token, " is not one of the ",
                                                       characters_.size(), " characters"));
      }
      AppendUtf8(characters_[token], &text);
    }
    return text;
  }

 private:
  absl::Status Append(absl::string_view text, std::vector<uint32_t>* out) const {
    const auto bytes =
        absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(text.data()), text.size());
    for (size_t i = 0; i < bytes.size();) {
      const size_t length = Utf8Length(bytes.subspan(i));
      if (length == 0) return absl::InvalidArgumentError(absl::StrCat("not UTF-8 at byte ", i));
      const uint32_t character = ReadUtf8(bytes.subspan(i, length));
      const uint32_t id = character < ids_.size() ? ids_[character] : kNoId;
      if (id == kNoId) {
        return absl::InvalidArgumentError(absl::StrFormat(
            "U+%04X at byte %d is not one of the tokenizer's characters", character, i));
      }
      out->push_back(id);
      i += length;
    }
    return absl::OkStatus();
  }

  const std::vector<uint32_t> characters_;
  std::vector<uint32_t> ids_;  // by character
};

absl::StatusOr<std::unique_ptr<Tokenizer>> MakeOf(std::vector<uint32_t> characters) {
  if (characters.empty() || characters.size() > kMostCharacters) {
    return absl::InvalidArgumentError(
        absl::StrCat(characters.size(), " different characters; a token each is for 1 to ",
                     kMostCharacters, " (take \"bytes\" or a BPE tokenizer)"));
  }
  for (size_t i = 0; i < characters.size(); ++i) {
    if (!IsScalar(characters[i]) || (i > 0 && characters[i] <= characters[i - 1])) {
      return absl::InvalidArgumentError(absl::StrCat("characters[", i, "] is ", characters[i],
                                                     "; they must be Unicode and ascend"));
    }
  }
  std::string file = nlohmann::json{{"characters", characters}}.dump() + "\n";
  return std::unique_ptr<Tokenizer>(
      std::make_unique<CharTokenizer>(std::move(file), std::move(characters)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> MakeCharTokenizer(
    const std::vector<uint32_t>& characters) {
  return MakeOf(characters);
}

absl::StatusOr<std::unique_ptr<Tokenizer>> ParseCharTokenizer(const nlohmann::json& json) {
  std::vector<uint32_t> characters;
  const auto list = json.find("characters");
  if (list == json.end() || !list->is_array()) {
    return absl::InvalidArgumentError("\"characters\" is not a list");
  }
  for (const nlohmann::json& one : *list) {
    if (!one.is_number_unsigned() || one.get<uint64_t>() >= kCharacters) {
      return absl::InvalidArgumentError(
          absl::StrCat("characters[", characters.size(), "] is not a code point"));
    }
    characters.push_back(one.get<uint32_t>());
  }
  return MakeOf(std::move(characters));
}

size_t Utf8Length(absl::Span<const uint8_t> rest) {
  const uint8_t lead = rest[0];
  if (lead < 0x80) return 1;
  const size_t length = lead >= 0xc2 && lead <= 0xdf   ? 2
                        : lead >= 0xe0 && lead <= 0xef ? 3
                        : lead >= 0xf0 && lead <= 0xf4 ? 4
                                                       : 0;
  if (length == 0 || rest.size() < length) return 0;
  // The second byte's range excludes overlong forms, surrogates and what lies above U+10FFFF.
  const uint8_t low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
  const uint8_t high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
  if (rest[1] < low || rest[1] > high) return 0;
  for (size_t i = 2; i < length; ++i) {
    if (rest[i] < 0x80 || rest[i] > 0xbf) return 0;
  }
  return length;
}

size_t FindInvalidUtf8(absl::Span<const uint8_t> bytes) {
  size_t i = 0;
  while (i < bytes.size()) {
    uint64_t word;
    if (i + sizeof(word) <= bytes.size()) {  // most text is ASCII: eight bytes at once
      std::memcpy(&word, bytes.data() + i, sizeof(word));
      if ((word & 0x8080808080808080u) == 0) {
        i += sizeof(word);
        continue;
      }
    }
    const size_t length = Utf8Length(bytes.subspan(i));
    if (length == 0) return i;
    i += length;
  }
  return bytes.size();
}

uint32_t ReadUtf8(absl::Span<const uint8_t> sequence) {
  if (sequence.size() == 1) return sequence[0];
  // The lead byte of n bytes has 7 - n bits of the character.
  uint32_t character = sequence[0] & ((1u << (7 - sequence.size())) - 1);
  for (const uint8_t byte : sequence.subspan(1)) character = (character << 6) | (byte & 0x3f);
  return character;
}

void AppendUtf8(uint32_t character, std::string* out) {
  if (character < 0x80) {
    out->push_back(static_cast<char>(character));
    return;
  }
  static constexpr uint32_t kLeads[] = {0xc0, 0xe0, 0xf0};  // of one, two, three more bytes
  const int more = character < 0x800 ? 1 : character < 0x10000 ? 2 : 3;
  out->push_back(static_cast<char>(kLeads[more - 1] | (character >> (6 * more))));
  for (int i = more - 1; i >= 0; --i) {
    out->push_back(static_cast<char>(0x80 | ((character >> (6 * i)) & 0x3f)));
  }
}

}  // namespace atolld
