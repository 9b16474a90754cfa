// One record of JSON, as corpora have them, a line or an element of an array each: where it ends,
// and which text it holds. Pure functions.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace atolld {

// The text under `field` of the record: a key ("body"), or keys and indices with dots between
// ("content.text", "messages.0.content"). Of a record that is a string it is that string. NaN and
// Infinity elsewhere in it, which Python writes, do no harm. INVALID_ARGUMENT says what is wrong,
// for a sentence that begins with the record's place.
absl::StatusOr<std::string> TextOfRecord(absl::string_view record, const std::string& field);

// Whether `text` is a whole JSON object.
bool IsJsonObject(absl::string_view text);

// Where the element of an array ends that begins at `at`: the place of the comma or bracket behind
// it; npos: `text` ends before.
size_t EndOfElement(absl::string_view text, size_t at);

}  // namespace atolld
