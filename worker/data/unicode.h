// The Unicode functions that tokenizers need: classes of characters, lower case and the four normal
// forms.
//
// The implementation uses ICU; this header does not include ICU's large headers. Pure. May be
// called from any thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace atolld {

enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };

// Returns `text`, which must be UTF-8, in a normal form. A character that is newer than Unicode 9
// is not changed and does not combine, because Hugging Face's tokenizers use the tables of Unicode
// 9, and models were trained with them. Fails with INVALID_ARGUMENT if `text` has more than 2 GiB,
// and with INTERNAL if ICU's tables are missing.
absl::StatusOr<std::string> Normalized(NormalForm form, absl::string_view text);

// Returns true if the character has the property White_Space (Unicode 15, PropList.txt), which
// differs from isspace().
bool IsWhiteSpace(uint32_t character);

// Returns true for a letter, mark, decimal digit, connector or joiner: \w of UTS #18, annex C.
bool IsWordCharacter(uint32_t character);

// Returns true if the character has general category M and exists in Unicode 9; see Normalized.
bool IsMark(uint32_t character);

// Converts `text` to lower case, each character by itself, so that a sigma never becomes a final
// sigma. U+0130 becomes two characters.
std::string Lowercased(absl::string_view text);

}  // namespace atolld
