// Chat templates: they write a conversation as one text, exactly as the authors of the models have
// published it.
//
//   chatml   for each turn: <|im_start|>ROLE\nTEXT<|im_end|>\n. This is OpenAI's ChatML, as
//            Qwen, Yi and SmolLM use it, but no turn is added to those of the record.
//   llama3   <|begin_of_text|>, then for each turn:
//            <|start_header_id|>ROLE<|end_header_id|>\n\nTEXT<|eot_id|>, where white space at both
//            ends of TEXT is removed. This is the chat_template of Meta-Llama-3-8B-Instruct.
//
// Each <|...|> is one token, which the tokenizer must have. The model learns its own part of the
// conversation: the text of each learnt turn, and the token that ends the turn. Pure. May be called
// from any thread.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace atolld {

inline constexpr char kAssistantRole[] = "assistant";

struct ChatTurn {
  std::string role;  // "system", "user", "assistant" or another role.
  std::string text;
  bool learnt = false;
};

struct ChatPiece {
  static constexpr size_t kNothing = static_cast<size_t>(-1);

  std::string text;
  bool is_token = false;          // True if `text` is the written form of one token.
  size_t learnt_from = kNothing;  // The offset in `text` from which the text is learnt.
};

// Fails with INVALID_ARGUMENT if there is no template of this name; the message lists the names
// that exist.
absl::Status CheckChatTemplate(absl::string_view name);

// Returns the tokens that the template needs, in the order of their first use.
std::vector<std::string> TokensOfChatTemplate(absl::string_view name);

// Writes the turns with the template `name`, which must exist. If `ask` is true, adds the head of
// an assistant's turn, after which the model continues.
std::vector<ChatPiece> RenderChat(absl::string_view name, const std::vector<ChatTurn>& turns,
                                  bool ask = false);

// The text that asks a model to answer a user's prompt, and the written form of the token that ends
// the answer.
struct ChatPrompt {
  std::string text;
  std::string stop;
};
absl::StatusOr<ChatPrompt> AskByTemplate(absl::string_view name, const std::string& prompt);

}  // namespace atolld
