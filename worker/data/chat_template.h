// Chat templates: what stands around the turns of a conversation, exactly as those who trained with
// them have published it.
//
//   chatml   <|im_start|>ROLE\nTEXT<|im_end|>\n for each turn: OpenAI's ChatML, as Qwen, Yi and
//            SmolLM take it. There is no turn that the record does not have.
//   llama3   <|begin_of_text|>, then <|start_header_id|>ROLE<|end_header_id|>\n\nTEXT<|eot_id|> for
//            each turn, TEXT without white space at its ends: the chat_template of
//            Meta-Llama-3-8B-Instruct
//
// What is in <| |> is one token each, which the tokenizer must have. Learnt is what the model is to
// say: the text of a learnt turn and the token that ends it. Pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace atolld {

inline constexpr char kAssistantRole[] = "assistant";

struct ChatTurn {
  std::string role;  // "system", "user", "assistant" or another
  std::string text;
  bool learnt = false;
};

struct ChatPiece {
  static constexpr size_t kNothing = static_cast<size_t>(-1);

  std::string text;
  bool is_token = false;          // `text` is how one token is written
  size_t learnt_from = kNothing;  // the byte of `text` from which on it is learnt
};

// INVALID_ARGUMENT: no template has this name; the message names those that there are.
absl::Status CheckChatTemplate(absl::string_view name);

// The tokens that the template needs, in the order of their first use.
std::vector<std::string> TokensOfChatTemplate(absl::string_view name);

// `name` must be a template's. With `ask` the head of an assistant's turn follows, for the model to
// go on from.
std::vector<ChatPiece> RenderChat(absl::string_view name, const std::vector<ChatTurn>& turns,
                                  bool ask = false);

// What a model is given that is to answer `prompt`, a user's turn, as one text; and the token, as
// it is written, with which its answer ends.
struct ChatPrompt {
  std::string text;
  std::string stop;
};
absl::StatusOr<ChatPrompt> AskByTemplate(absl::string_view name, const std::string& prompt);

}  // namespace atolld
