// What tokenizers ask of Unicode: classes of characters, small letters and the four normal forms.
//
// ICU's tables, which are hidden here: its headers are large. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace atolld {

enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };

// `text` is UTF-8. A character that is younger than Unicode 9 stands for itself and joins nothing:
// those are the tables of Hugging Face's tokenizers, and a model's ids were made with them.
// INVALID_ARGUMENT: `text` has more than 2 GiB. INTERNAL: ICU has no tables.
absl::StatusOr<std::string> Normalized(NormalForm form, absl::string_view text);

// The property White_Space (Unicode 15, PropList.txt), which is not what isspace() says.
bool IsWhiteSpace(uint32_t character);

// A letter, mark, decimal digit, connector or joiner: \w of UTS #18, annex C.
bool IsWordCharacter(uint32_t character);

// Of general category M, and in Unicode 9 already, as above.
bool IsMark(uint32_t character);

// Each character by itself, so that no sigma is a final one; U+0130 becomes two.
std::string Lowercased(absl::string_view text);

}  // namespace atolld
