#include "worker/data/tokenizer.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compression/base/utf8.h"
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
    for (size_t i = 0; i < text.size();) {
      const size_t length = Utf8Length(text.substr(i));
      if (length == 0) return absl::InvalidArgumentError(absl::StrCat("not UTF-8 at byte ", i));
      const uint32_t character = ReadUtf8(text.substr(i, length));
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

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> MakeCharTokenizer(std::vector<uint32_t> characters) {
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
  return MakeCharTokenizer(std::move(characters));
}

}  // namespace atolld
