#include "worker/data/chat_template.h"

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"

namespace atolld {
namespace {

// The texts of one template: `begin` once, then for each turn `open`, the role, `head_token` if
// there is one and `head`, the turn's text, `close` and `tail`.
struct ChatForm {
  const char* name;
  const char* begin;
  const char* open;
  const char* head_token;
  const char* head;
  const char* close;
  const char* tail;
  bool strips;  // white space at the ends of a text
};

constexpr ChatForm kChatForms[] = {
    {"chatml", "", "<|im_start|>", "", "\n", "<|im_end|>", "\n", false},
    {"llama3", "<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "\n\n",
     "<|eot_id|>", "", true},
};

const ChatForm* FindChatForm(absl::string_view name) {
  for (const ChatForm& form : kChatForms) {
    if (name == form.name) return &form;
  }
  return nullptr;
}

void AddToken(const char* token, bool learnt, std::vector<ChatPiece>* pieces) {
  if (*token == '\0') return;
  pieces->push_back({token, true, learnt ? 0 : ChatPiece::kNothing});
}

// Appends the role's head, which precedes the text of the turn.
std::string AddHead(const ChatForm& form, const std::string& role, std::vector<ChatPiece>* pieces) {
  AddToken(form.open, false, pieces);
  if (*form.head_token == '\0') return absl::StrCat(role, form.head);
  pieces->push_back({role});
  AddToken(form.head_token, false, pieces);
  return form.head;
}

}  // namespace

absl::Status CheckChatTemplate(absl::string_view name) {
  if (FindChatForm(name) != nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("data.template \"", name, "\" is not known; known: chatml, llama3"));
}

std::vector<std::string> TokensOfChatTemplate(absl::string_view name) {
  std::vector<std::string> tokens;
  const ChatForm& form = *FindChatForm(name);
  for (const char* token : {form.begin, form.open, form.head_token, form.close}) {
    if (*token != '\0') tokens.push_back(token);
  }
  return tokens;
}

std::vector<ChatPiece> RenderChat(absl::string_view name, const std::vector<ChatTurn>& turns,
                                  bool ask) {
  const ChatForm& form = *FindChatForm(name);
  std::vector<ChatPiece> pieces;
  AddToken(form.begin, false, &pieces);
  for (const ChatTurn& turn : turns) {
    const std::string head = AddHead(form, turn.role, &pieces);
    ChatPiece text;
    text.text = absl::StrCat(
        head, form.strips ? absl::StripAsciiWhitespace(turn.text) : absl::string_view(turn.text));
    if (turn.learnt) text.learnt_from = head.size();
    pieces.push_back(text);
    AddToken(form.close, turn.learnt, &pieces);
    if (*form.tail != '\0') pieces.push_back({form.tail});
  }
  if (ask) pieces.push_back({AddHead(form, kAssistantRole, &pieces)});
  return pieces;
}

absl::StatusOr<ChatPrompt> AskByTemplate(absl::string_view name, const std::string& prompt) {
  RETURN_IF_ERROR(CheckChatTemplate(name));
  ChatPrompt asked;
  for (const ChatPiece& piece : RenderChat(name, {{"user", prompt}}, /*ask=*/true)) {
    asked.text += piece.text;
  }
  asked.stop = FindChatForm(name)->close;
  return asked;
}

}  // namespace atolld
