// Turns conversations into tokens, and records which tokens are learnt and where each conversation
// begins.
#pragma once

#include <cstdint>
#include <map>
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

// Marks for a row of tokens that consists of consecutive conversations.
struct TokenMarks {
  std::vector<bool> learnt;  // True for each token that counts as a target.
  // The index at which each conversation begins, and at the end the number of tokens.
  std::vector<uint64_t> begins = {0};

  size_t conversations() const { return begins.size() - 1; }

  // Returns the marks of only the tokens of the conversations [first, last).
  TokenMarks Cut(size_t first, size_t last) const;
};

struct ChatOptions {
  // The template's name; if empty, prompts and completions are used without a template.
  std::string template_name;
  bool learn_all = false;  // True if every token counts, and not only those of the assistant.
  // True if a sequence may have several conversations, with the end of text between them.
  bool joined = false;
};

// Turns records into tokens. The whole text between two tokens of the template is encoded at once;
// a token that contains both the end of a turn's head and the start of its text is learnt. Without
// a template, the tokenizer's end of text follows each completion, and is learnt. Used by one
// thread.
class ConversationEncoder {
 public:
  // Fails with INVALID_ARGUMENT if there is no such template or the tokenizer lacks one of its
  // tokens. `tokenizer` must outlive the encoder.
  static absl::StatusOr<ConversationEncoder> Make(const Tokenizer& tokenizer, ChatOptions options);

  // Appends the tokens of one JSON record. Fails with INVALID_ARGUMENT if ChatOfRecord or the
  // tokenizer's Encoder does.
  absl::Status Add(absl::string_view record);

  // The tokens are in bytes(), as little-endian ids of width() bytes each.
  uint32_t width() const { return width_; }
  std::string& bytes() { return bytes_; }
  const TokenMarks& marks() const { return marks_; }

  // Returns sentences about the keys that have a value but are not used for training.
  std::vector<std::string> notes() const;

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
  std::vector<std::pair<std::string, uint32_t>> ids_;  // The ids of the template's tokens.
  std::string bytes_;
  TokenMarks marks_;
  // The number of records that have each unused key. Keys are named as in ChatRecord::unused.
  std::map<std::string, uint64_t> unused_;
};

}  // namespace atolld
