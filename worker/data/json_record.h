// One record of JSON, as corpora have them, a line or an element of an array each: where it ends,
// and which text or conversation it holds. Pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/data/chat_template.h"

namespace atolld {

// The text under `field` of the record: a key ("body"), or keys and indices with dots between
// ("content.text", "messages.0.content"). Of a record that is a string it is that string. NaN and
// Infinity elsewhere in it, which Python writes, do no harm. INVALID_ARGUMENT says what is wrong,
// for a sentence that begins with the record's place.
absl::StatusOr<std::string> TextOfRecord(absl::string_view record, const std::string& field);

// A record of instruction data.
struct ChatRecord {
  // Of "messages", a list of {"role", "content"}; of "prompt" and "completion" that are such lists;
  // and, where a template is used, a user's and an assistant's turn for two texts. Learnt are the
  // assistant's turns, of a pair only those in "completion".
  std::vector<ChatTurn> turns;
  // Without a template "prompt" and "completion", two texts, stand here, and `turns` is empty.
  std::string prompt, completion;
};

// INVALID_ARGUMENT, as TextOfRecord: it has neither form, nothing in it is learnt, or there are
// messages and no template for them.
absl::StatusOr<ChatRecord> ChatOfRecord(absl::string_view record, bool has_template);

// Whether `text` is a whole JSON object.
bool IsJsonObject(absl::string_view text);

// Where the element of an array ends that begins at `at`: the place of the comma or bracket behind
// it; npos: `text` ends before.
size_t EndOfElement(absl::string_view text, size_t at);

}  // namespace atolld
