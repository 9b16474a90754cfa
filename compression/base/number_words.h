// The words that every output uses for numbers that are not finite. Such a value is shown as a
// word, never as 0 and never as if it were missing.
//
// Pure. May be called from any thread.
#pragma once

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace atolld {

// Returns "NaN", "Infinity" or "-Infinity" for a value that is not finite, and nullptr otherwise.
// In JSON these words are strings. Python's float() and JavaScript's Number() can parse them.
const char* WordOf(double value);

// Returns the value of one of these words, or nullopt if `word` is another text.
std::optional<double> ValueOfWord(absl::string_view word);

// Returns the value with `decimals` decimals, as in "2.1034", or its word if it is not finite.
std::string NumberText(double value, int decimals);

}  // namespace atolld
