// A record of instruction data: the turns of a conversation, or a prompt and its completion.
//
// Four forms are read: "messages", a list of {"role", "content"}; "prompt" and "completion", two
// texts or two such lists; ShareGPT's "conversations", a list of {"from", "value"}; Alpaca's
// "instruction", "input" and "output". Each key of a record is either used, reported in `unused`,
// or a reason to refuse the record, so that content on which the answers depend, such as tool
// calls, is never dropped silently. Pure. May be called from any thread.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/data/chat_template.h"

namespace atolld {

struct ChatRecord {
  // The model learns the assistant's turns whose "weight" is not 0; if "prompt" and "completion"
  // are lists, only those in "completion". With a template, two texts become a user's and an
  // assistant's turn.
  std::vector<ChatTurn> turns;
  // Without a template, the texts "prompt" and "completion" are stored in these members, and
  // `turns` is empty.
  std::string prompt, completion;
  // The keys that have a value but are not used for training, in a form for sentences, for example
  // "\"id\"" or "\"name\" of a message". They are sorted, and each occurs once.
  std::vector<std::string> unused;
};

// Reads a record. Fails with INVALID_ARGUMENT if the record has none of the forms, has tool calls
// (which our templates cannot write), has an empty answer or nothing to learn, or has messages
// although there is no template. The message is the end of a sentence that begins with the place of
// the record.
absl::StatusOr<ChatRecord> ChatOfRecord(absl::string_view record, bool has_template);

}  // namespace atolld
