// Conversations as tokens: which of them are learnt, and where each conversation begins.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/data/chat_template.h"
#include "worker/data/tokenizer.h"

namespace atolld {

// What stands beside a row of tokens that is conversations, one behind the other.
struct TokenMarks {
  std::vector<bool> learnt;            // of each token: whether it counts as a target
  std::vector<uint64_t> begins = {0};  // of each conversation; and the number of tokens

  size_t conversations() const { return begins.size() - 1; }

  // Those from `first` to before `last`, for their tokens alone.
  TokenMarks Cut(size_t first, size_t last) const;
};

struct ChatOptions {
  std::string template_name;  // empty: prompts and completions as they stand
  bool learn_all = false;     // every token counts, not only what the assistant says
  bool joined = false;        // for sequences of several conversations: end of text between them
};

// Turns records into tokens. Between the tokens of the template the tokenizer encodes each text
// whole; a token that holds the end of a turn's head and the begin of its text is learnt. Without a
// template the tokenizer's end of text, which is learnt, stands behind a completion. One thread.
class ConversationEncoder {
 public:
  // INVALID_ARGUMENT: there is no such template, or the tokenizer lacks a token of it.
  // `tokenizer` must outlive the encoder.
  static absl::StatusOr<ConversationEncoder> Make(const Tokenizer& tokenizer, ChatOptions options);

  // Appends a record of JSON. INVALID_ARGUMENT: as ChatOfRecord, or as Encoder.
  absl::Status Add(absl::string_view record);

  // Little-endian ids of width() bytes each.
  uint32_t width() const { return width_; }
  std::string& bytes() { return bytes_; }
  const TokenMarks& marks() const { return marks_; }

 private:
  ConversationEncoder(const Tokenizer& tokenizer, ChatOptions options);
  absl::Status AddPiece(const ChatPiece& piece);
  absl::Status AddText(const std::string& text, size_t learnt_from);
  absl::Status AddEnd(bool learnt);
  void AddTokens(const std::vector<uint32_t>& tokens, size_t learnt_from);

  const Tokenizer& tokenizer_;
  const ChatOptions options_;
  const uint32_t width_;
  std::unique_ptr<Encoder> encoder_;
  std::vector<std::pair<std::string, uint32_t>> ids_;  // of the template's tokens
  std::string bytes_;
  TokenMarks marks_;
};

}  // namespace atolld
