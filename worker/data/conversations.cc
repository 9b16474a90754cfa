#include "worker/data/conversations.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "compression/base/words.h"
#include "worker/data/chat_record.h"
#include "worker/data/prepare.h"
#include "worker/data/token_file.h"

namespace atolld {

TokenMarks TokenMarks::Cut(size_t first, size_t last) const {
  TokenMarks cut;
  const auto at = [this](uint64_t token) {
    return learnt.begin() + static_cast<std::ptrdiff_t>(token);
  };
  cut.learnt.assign(at(begins[first]), at(begins[last]));
  for (size_t i = first; i < last; ++i) cut.begins.push_back(begins[i + 1] - begins[first]);
  return cut;
}

ConversationEncoder::ConversationEncoder(const Tokenizer& tokenizer, ChatOptions options)
    : tokenizer_(tokenizer),
      options_(std::move(options)),
      width_(WidthFor(tokenizer.vocabulary())),
      encoder_(tokenizer.NewEncoder()) {}

absl::StatusOr<ConversationEncoder> ConversationEncoder::Make(const Tokenizer& tokenizer,
                                                              ChatOptions options) {
  ConversationEncoder encoder(tokenizer, std::move(options));
  const std::string& name = encoder.options_.template_name;
  if (name.empty()) return encoder;
  RETURN_IF_ERROR(CheckChatTemplate(name));
  for (const std::string& token : TokensOfChatTemplate(name)) {
    const absl::optional<uint32_t> id = tokenizer.IdOf(token);
    if (!id.has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat("data: template \"", name, "\" needs the token ", token,
                       ", and tokenizer \"", tokenizer.kind(),
                       "\" has no such token; name the tokenizer.json "
                       "of a model that was made for it, or take another template"));
    }
    encoder.ids_.emplace_back(token, *id);
  }
  return encoder;
}

absl::Status ConversationEncoder::Add(absl::string_view record) {
  const bool has_template = !options_.template_name.empty();
  ASSIGN_OR_RETURN(const ChatRecord chat, ChatOfRecord(record, has_template));
  for (const std::string& key : chat.unused) ++unused_[key];
  if (chat.turns.empty()) {
    RETURN_IF_ERROR(AddText(chat.prompt + chat.completion, chat.prompt.size()));
    RETURN_IF_ERROR(AddEnd(true));
  } else {
    const auto end = tokenizer_.separator().token;
    const bool ends_turns = !ids_.empty() && end == ids_.back().second;
    if (options_.joined && marks_.conversations() > 0 && end.has_value() && !ends_turns) {
      RETURN_IF_ERROR(AddEnd(false));
    }
    for (const ChatPiece& piece : RenderChat(options_.template_name, chat.turns)) {
      RETURN_IF_ERROR(AddPiece(piece));
    }
  }
  marks_.begins.push_back(marks_.learnt.size());
  return absl::OkStatus();
}

std::vector<std::string> ConversationEncoder::notes() const {
  std::vector<std::string> notes;
  for (const auto& [key, records] : unused_) {
    notes.push_back(absl::StrCat(key, " is not trained on; ", Counted(records, "record"),
                                 records == 1 ? " has it" : " have it"));
  }
  return notes;
}

absl::Status ConversationEncoder::AddPiece(const ChatPiece& piece) {
  if (!piece.is_token) return AddText(piece.text, piece.learnt_from);
  const auto is_it = [&](const auto& one) { return one.first == piece.text; };
  const auto found = std::find_if(ids_.begin(), ids_.end(), is_it);
  AddTokens({found->second}, piece.learnt_from);
  return absl::OkStatus();
}

absl::Status ConversationEncoder::AddText(const std::string& text, size_t learnt_from) {
  std::vector<uint32_t> tokens, head;
  RETURN_IF_ERROR(encoder_->Encode(text, &tokens));
  if (learnt_from == ChatPiece::kNothing) {
    AddTokens(tokens, learnt_from);
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(encoder_->Encode(text.substr(0, learnt_from), &head));
  const auto differs = std::mismatch(head.begin(), head.end(), tokens.begin(), tokens.end()).first;
  AddTokens(tokens, static_cast<size_t>(differs - head.begin()));
  return absl::OkStatus();
}

absl::Status ConversationEncoder::AddEnd(bool learnt) {
  const size_t from = learnt ? 0 : ChatPiece::kNothing;
  if (const auto end = tokenizer_.separator().token) {
    AddTokens({*end}, from);
    return absl::OkStatus();
  }
  return AddText("\n", from);
}

void ConversationEncoder::AddTokens(const std::vector<uint32_t>& tokens, size_t learnt_from) {
  AppendTokens(tokens, width_, &bytes_);
  for (size_t i = 0; i < tokens.size(); ++i) {
    marks_.learnt.push_back(options_.learn_all || i >= learnt_from);
  }
}

}  // namespace atolld
