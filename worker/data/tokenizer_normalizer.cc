#include "worker/data/tokenizer_normalizer.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "compression/base/status_macros.h"
#include "compression/base/utf8.h"
#include "worker/data/json_record.h"
#include "worker/data/token_model.h"
#include "worker/data/token_pattern.h"
#include "worker/data/unicode.h"

namespace atolld {

namespace {

enum class Change { kForm, kLowercase, kStrip, kStripAccents, kReplace, kPrepend, kByteLevel };

bool IsAscii(absl::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return (c & 0x80) == 0; });
}

// Returns `text` without white space at the chosen ends.
absl::string_view Stripped(absl::string_view text, bool left, bool right) {
  while (left && !text.empty()) {
    const size_t length = Utf8Length(text);
    if (!IsWhiteSpace(ReadUtf8(text.substr(0, length)))) break;
    text.remove_prefix(length);
  }
  while (right && !text.empty()) {
    size_t last = text.size() - 1;
    while (last > 0 && (text[last] & 0xc0) == 0x80) --last;
    if (!IsWhiteSpace(ReadUtf8(text.substr(last)))) break;
    text = text.substr(0, last);
  }
  return text;
}

std::string WithoutMarks(absl::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const absl::string_view one = text.substr(i, Utf8Length(text.substr(i)));
    if (!IsMark(ReadUtf8(one))) absl::StrAppend(&out, one);
    i += one.size();
  }
  return out;
}

}  // namespace

struct TextNormalizer::Step {
  Change change = Change::kForm;
  NormalForm form = NormalForm::kNfc;
  bool left = false, right = false;      // of what strips
  absl::optional<TokenPattern> pattern;  // of what replaces
  bool one_character = false;  // the pattern is one character, and not replaced by nothing
  std::string content;         // that replaces, or is put before
};

TextNormalizer::TextNormalizer() = default;
TextNormalizer::TextNormalizer(TextNormalizer&&) noexcept = default;
TextNormalizer& TextNormalizer::operator=(TextNormalizer&&) noexcept = default;
TextNormalizer::~TextNormalizer() = default;

absl::StatusOr<TextNormalizer> TextNormalizer::Parse(const nlohmann::json& json) {
  TextNormalizer normalizer;
  RETURN_IF_ERROR(normalizer.Read(json));
  return normalizer;
}

absl::Status TextNormalizer::Read(const nlohmann::json& json) {
  if (!SaysSomething(json)) return absl::OkStatus();
  const std::string type = TextPart(json, "type");
  if (type == "Sequence") {
    for (const nlohmann::json& one : PartOf(json, "normalizers")) RETURN_IF_ERROR(Read(one));
    return absl::OkStatus();
  }
  static constexpr std::pair<const char*, NormalForm> kForms[] = {{"NFC", NormalForm::kNfc},
                                                                  {"NFD", NormalForm::kNfd},
                                                                  {"NFKC", NormalForm::kNfkc},
                                                                  {"NFKD", NormalForm::kNfkd}};
  Step step;
  for (const auto& [name, form] : kForms) {
    if (type != name) continue;
    step.form = form;
    steps_.push_back(std::move(step));
    return absl::OkStatus();
  }
  if (type == "Replace") return ReadReplace(json);
  if (type == "Lowercase") {
    step.change = Change::kLowercase;
  } else if (type == "StripAccents") {
    step.change = Change::kStripAccents;
  } else if (type == "ByteLevel") {
    step.change = Change::kByteLevel;
  } else if (type == "Strip") {
    step.change = Change::kStrip;
    step.left = FlagPart(json, "strip_left", true);
    step.right = FlagPart(json, "strip_right", true);
    if (!step.left && !step.right) return absl::OkStatus();
  } else if (type == "Prepend") {
    step.change = Change::kPrepend;
    step.content = TextPart(json, "prepend");
    if (step.content.empty()) return absl::OkStatus();
  } else {
    return absl::InvalidArgumentError(absl::StrCat(
        "normalizer \"", type,
        "\" is not known here; known: Sequence, NFC, NFD, NFKC, NFKD, Lowercase, Strip, "
        "StripAccents, Replace, Prepend, ByteLevel"));
  }
  steps_.push_back(std::move(step));
  return absl::OkStatus();
}

absl::Status TextNormalizer::ReadReplace(const nlohmann::json& json) {
  const nlohmann::json& pattern = PartOf(json, "pattern");
  const std::string text = TextPart(pattern, "String"), regex = TextPart(pattern, "Regex");
  Step step;
  step.change = Change::kReplace;
  step.content = TextPart(json, "content");
  if (!text.empty()) {
    step.pattern = TokenPattern::OfText(text);
    step.one_character = Utf8Length(text) == text.size() && !step.content.empty();
  } else if (!regex.empty()) {
    auto compiled = TokenPattern::OfRegex(regex);
    RETURN_IF_ERROR(Annotate(compiled.status(), "normalizer \"Replace\""));
    step.pattern = *std::move(compiled);
  } else {
    return absl::InvalidArgumentError("normalizer \"Replace\" has no pattern");
  }
  steps_.push_back(std::move(step));
  return absl::OkStatus();
}

bool TextNormalizer::keeps_start() const {
  return std::all_of(steps_.begin(), steps_.end(), [](const Step& step) {
    if (step.change == Change::kReplace) return step.one_character;
    return step.change != Change::kStripAccents && !step.left;
  });
}

absl::Status TextNormalizer::Apply(std::string* text) const {
  for (const Step& step : steps_) {
    if (text->empty()) return absl::OkStatus();
    switch (step.change) {
      case Change::kForm:  // below U+0080 no form changes anything
        if (!IsAscii(*text)) {
          ASSIGN_OR_RETURN(*text, Normalized(step.form, *text));
        }
        break;
      case Change::kLowercase:
        *text = Lowercased(*text);
        break;
      case Change::kStrip:
        *text = std::string(Stripped(*text, step.left, step.right));
        break;
      case Change::kStripAccents:
        *text = WithoutMarks(*text);
        break;
      case Change::kReplace: {
        ASSIGN_OR_RETURN(*text, step.pattern->Replace(*text, step.content));
        break;
      }
      case Change::kPrepend:
        text->insert(0, step.content);
        break;
      case Change::kByteLevel:
        *text = TokenOfBytes(*text);
        break;
    }
  }
  return absl::OkStatus();
}

}  // namespace atolld
