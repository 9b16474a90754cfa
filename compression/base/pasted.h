// Pasted text: text that was copied out of a mail, a chat, a web page or an editor.
//
// Such programs change text in invisible ways. If the text is a token or an address, the original
// can be restored. Pure. May be called from any thread.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace atolld {

// Returns the text without the changes that such programs make, as UTF-8 and without white space at
// its ends. UTF-16 is converted if it has a byte order mark or if half of the bytes are zero. Byte
// order marks and zero-width characters are removed. Spaces of all kinds, including line ends,
// become ' ', dashes become '-' (an em dash becomes "--"), and typographic quotes become ASCII
// quotes. Plain ASCII in the middle of the text is not changed.
std::string CleanPasted(absl::string_view text);

}  // namespace atolld
