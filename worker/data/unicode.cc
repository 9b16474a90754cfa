#include "worker/data/unicode.h"

#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>
#include <unicode/uniset.h>

#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "compression/base/utf8.h"

namespace atolld {
namespace {

const icu::Normalizer2* FormOfIcu(NormalForm form, UErrorCode* error) {
  switch (form) {
    case NormalForm::kNfc:
      return icu::Normalizer2::getNFCInstance(*error);
    case NormalForm::kNfd:
      return icu::Normalizer2::getNFDInstance(*error);
    case NormalForm::kNfkc:
      return icu::Normalizer2::getNFKCInstance(*error);
    case NormalForm::kNfkd:
      return icu::Normalizer2::getNFKDInstance(*error);
  }
  return nullptr;
}

// The characters that the tables know.
const icu::UnicodeSet& KnownCharacters() {
  static const icu::UnicodeSet* const known = [] {
    UErrorCode error = U_ZERO_ERROR;
    auto* set = new icu::UnicodeSet(UNICODE_STRING_SIMPLE("[:age=9.0:]"), error);
    set->freeze();
    return set;
  }();
  return *known;
}

UChar32 Icu(uint32_t character) { return static_cast<UChar32>(character); }

}  // namespace

absl::StatusOr<std::string> Normalized(NormalForm form, absl::string_view text) {
  if (text.size() > std::numeric_limits<int32_t>::max()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a text of ", text.size(), " bytes is too long to be normalized"));
  }
  UErrorCode error = U_ZERO_ERROR;
  const icu::Normalizer2* all = FormOfIcu(form, &error);
  std::string out;
  out.reserve(text.size());
  if (U_SUCCESS(error)) {
    const icu::FilteredNormalizer2 known(*all, KnownCharacters());
    icu::StringByteSink<std::string> sink(&out);
    known.normalizeUTF8(0, icu::StringPiece(text.data(), static_cast<int32_t>(text.size())), sink,
                        nullptr, error);
  }
  if (U_FAILURE(error)) {
    return absl::InternalError(absl::StrCat("ICU cannot normalize: ", u_errorName(error)));
  }
  return out;
}

bool IsWhiteSpace(uint32_t character) {
  return u_hasBinaryProperty(Icu(character), UCHAR_WHITE_SPACE) != 0;
}

bool IsWordCharacter(uint32_t character) {
  const uint32_t category = U_MASK(u_charType(Icu(character)));
  return (category & (U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK)) != 0 ||
         u_hasBinaryProperty(Icu(character), UCHAR_ALPHABETIC) != 0 ||
         u_hasBinaryProperty(Icu(character), UCHAR_JOIN_CONTROL) != 0;
}

bool IsMark(uint32_t character) { return (U_MASK(u_charType(Icu(character))) & U_GC_M_MASK) != 0; }

std::string Lowercased(absl::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const size_t length = Utf8Length(text.substr(i));
    const uint32_t character = ReadUtf8(text.substr(i, length));
    if (character == 0x130) {  // the only one whose full mapping is longer (SpecialCasing.txt)
      out += "i\xcc\x87";
    } else {
      AppendUtf8(static_cast<uint32_t>(u_tolower(Icu(character))), &out);
    }
    i += length;
  }
  return out;
}

}  // namespace atolld
