#include "worker/data/chat_record.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "worker/data/json_record.h"

namespace atolld {
namespace {

using Record = nlohmann::json;

absl::Status BadChat(absl::string_view what) { return absl::InvalidArgumentError(what); }

std::string Quoted(absl::string_view key) {
  return absl::StrCat("\"", absl::Utf8SafeCEscape(key), "\"");
}

// Keys on which the answers of a conversation depend, and which no template here writes.
constexpr const char* kCalls[] = {"tools", "functions", "tool_calls", "function_call"};

absl::Status CheckCalls(const Record& object, absl::string_view where) {
  for (const char* key : kCalls) {
    if (!SaysSomething(PartOf(object, key))) continue;
    return BadChat(absl::StrCat(
        "has ", where, "\"", key,
        "\", which no [data] template writes; a model of kind \"huggingface\" writes it with the "
        "template of its own tokenizer"));
  }
  return absl::OkStatus();
}

// Returns one text of `object`. An error continues a sentence that begins with the record's place.
absl::StatusOr<std::string> TextUnder(const Record& object, const char* key,
                                      absl::string_view where) {
  const auto found = object.find(key);
  if (found == object.end()) {
    return BadChat(absl::StrCat("has ", where, "no \"", key, "\"; it has ", KeysOf(object)));
  }
  if (found->is_string()) return found->get<std::string>();
  return BadChat(
      absl::StrCat("has ", where, KindOfValue(*found), " under \"", key, "\", not a text"));
}

// Returns the text under a key that may be missing.
absl::StatusOr<std::string> TextIfThere(const Record& object, const char* key) {
  if (!SaysSomething(PartOf(object, key))) return std::string();
  return TextUnder(object, key, "");
}

// Returns the role for ShareGPT's name of a speaker; empty if there is none.
std::string RoleOfSpeaker(const std::string& name) {
  static constexpr std::pair<const char*, const char*> kSpeakers[] = {
      {"human", "user"},           {"user", "user"},
      {"gpt", kAssistantRole},     {"assistant", kAssistantRole},
      {"chatgpt", kAssistantRole}, {"model", kAssistantRole},
      {"system", "system"}};
  for (const auto& [speaker, role] : kSpeakers) {
    if (name == speaker) return role;
  }
  return "";
}

// Reads one record; afterwards it knows the record's keys.
class ChatReader {
 public:
  explicit ChatReader(bool has_template) : has_template_(has_template) {}

  absl::StatusOr<ChatRecord> Read(const Record& json) {
    RETURN_IF_ERROR(CheckCalls(json, ""));
    RETURN_IF_ERROR(ReadForm(json));
    Leave(json, used_, "");
    chat_.unused.assign(unused_.begin(), unused_.end());
    return std::move(chat_);
  }

 private:
  absl::Status ReadForm(const Record& json) {
    if (json.contains("messages")) {
      used_ = {"messages"};
      return AddTurns(json["messages"], "messages", true);
    }
    if (json.contains("prompt") && json.contains("completion")) return ReadPair(json);
    if (json.contains("conversations")) {
      used_ = {"conversations", "system"};
      RETURN_IF_ERROR(AddSystem(json));
      return AddTurns(json["conversations"], "conversations", true);
    }
    if (json.contains("instruction") && json.contains("output")) return ReadAlpaca(json);
    return BadChat(absl::StrCat(
        "has neither \"messages\" nor \"prompt\" and \"completion\"; it has ", KeysOf(json)));
  }

  absl::Status ReadPair(const Record& json) {
    used_ = {"prompt", "completion"};
    const Record &prompt = json["prompt"], &completion = json["completion"];
    if (prompt.is_array() || completion.is_array()) {
      RETURN_IF_ERROR(AddTurns(prompt, "prompt", false));
      return AddTurns(completion, "completion", true);
    }
    ASSIGN_OR_RETURN(chat_.prompt, TextUnder(json, "prompt", ""));
    ASSIGN_OR_RETURN(chat_.completion, TextUnder(json, "completion", ""));
    if (chat_.completion.empty()) {
      return BadChat("has an empty \"completion\": nothing to learn");
    }
    if (!has_template_) return absl::OkStatus();
    AddTurn("user", std::move(chat_.prompt), false);
    AddTurn(kAssistantRole, std::move(chat_.completion), true);
    return absl::OkStatus();
  }

  absl::Status ReadAlpaca(const Record& json) {
    used_ = {"instruction", "input", "output", "system"};
    if (SaysSomething(PartOf(json, "history"))) {
      return BadChat("has \"history\", turns before the instruction; write them as \"messages\"");
    }
    RETURN_IF_ERROR(AddSystem(json));
    ASSIGN_OR_RETURN(std::string asked, TextIfThere(json, "instruction"));
    ASSIGN_OR_RETURN(const std::string input, TextIfThere(json, "input"));
    if (!input.empty()) absl::StrAppend(&asked, asked.empty() ? "" : "\n\n", input);
    AddTurn("user", std::move(asked), false);
    ASSIGN_OR_RETURN(std::string output, TextIfThere(json, "output"));
    AddTurn(kAssistantRole, std::move(output), true);
    return CheckAnswer("");
  }

  absl::Status AddSystem(const Record& json) {
    ASSIGN_OR_RETURN(std::string system, TextIfThere(json, "system"));
    if (!system.empty()) AddTurn("system", std::move(system), false);
    return absl::OkStatus();
  }

  absl::Status AddTurns(const Record& messages, const char* key, bool learns) {
    if (!messages.is_array()) {
      return BadChat(absl::StrCat("has ", KindOfValue(messages), " under \"", key,
                                  "\", not a list of messages"));
    }
    for (size_t i = 0; i < messages.size(); ++i) {
      const std::string where = absl::StrCat("in message ", i + 1, " of \"", key, "\" ");
      if (!messages[i].is_object()) {
        return BadChat(absl::StrCat("has ", where, KindOfValue(messages[i]), ", not an object"));
      }
      RETURN_IF_ERROR(AddMessage(messages[i], where, learns));
    }
    return absl::OkStatus();
  }

  absl::Status AddMessage(const Record& message, const std::string& where, bool learns) {
    RETURN_IF_ERROR(CheckCalls(message, where));
    const bool share_gpt =
        message.contains("from") && !message.contains("role") && used_.count("conversations") > 0;
    const char* const speaker = share_gpt ? "from" : "role";
    const char* const content = share_gpt ? "value" : "content";
    ASSIGN_OR_RETURN(std::string role, TextUnder(message, speaker, where));
    if (share_gpt) {
      const std::string known = RoleOfSpeaker(role);
      if (known.empty()) {
        return BadChat(absl::StrCat("has ", where, "\"from\" ", Quoted(role),
                                    ", which is not known; known: human, user, gpt, assistant, "
                                    "chatgpt, model, system"));
      }
      role = known;
    }
    ASSIGN_OR_RETURN(std::string text, TextUnder(message, content, where));
    const auto weight = message.find("weight");
    if (weight != message.end() && *weight != 0 && *weight != 1) {
      return BadChat(
          absl::StrCat("has ", where, "the weight ", weight->dump(), "; it must be 0 or 1"));
    }
    const bool counts = weight == message.end() || *weight == 1;
    AddTurn(std::move(role), std::move(text), learns && counts);
    Leave(message, {speaker, content, "weight"}, " of a message");
    return CheckAnswer(where);
  }

  void AddTurn(std::string role, std::string text, bool learns) {
    ChatTurn turn;
    turn.learnt = learns && role == kAssistantRole;
    turn.role = std::move(role);
    turn.text = std::move(text);
    chat_.turns.push_back(std::move(turn));
  }

  // Of the newest turn.
  absl::Status CheckAnswer(const std::string& where) const {
    const ChatTurn& turn = chat_.turns.back();
    if (!turn.learnt || !absl::StripAsciiWhitespace(turn.text).empty()) return absl::OkStatus();
    return BadChat(absl::StrCat("has ", where, "an empty answer: nothing to learn"));
  }

  // Notes the keys of `object` that hold something and are not among `used`.
  void Leave(const Record& object, const std::set<std::string>& used, absl::string_view of) {
    for (const auto& [key, value] : object.items()) {
      if (used.count(key) > 0 || !SaysSomething(value)) continue;
      unused_.insert(absl::StrCat(Quoted(key), of));
    }
  }

  const bool has_template_;
  ChatRecord chat_;
  std::set<std::string> used_;  // of the record's own keys
  std::set<std::string> unused_;
};

}  // namespace

absl::StatusOr<ChatRecord> ChatOfRecord(absl::string_view record, bool has_template) {
  ASSIGN_OR_RETURN(const Record json, ParseRecord(record));
  if (!json.is_object()) {
    return BadChat(absl::StrCat("is ", KindOfValue(json), ", not a JSON object"));
  }
  ASSIGN_OR_RETURN(ChatRecord chat, ChatReader(has_template).Read(json));
  if (chat.turns.empty() && chat.completion.empty()) return BadChat("has no message");
  if (chat.turns.empty()) return chat;
  if (!has_template) {
    return BadChat(
        "has messages, and nothing says how they are written; set [data] template (--template) to "
        "\"chatml\" or \"llama3\"");
  }
  if (std::none_of(chat.turns.begin(), chat.turns.end(),
                   [](const ChatTurn& turn) { return turn.learnt; })) {
    return BadChat("has no message of the role \"assistant\": nothing to learn");
  }
  return chat;
}

}  // namespace atolld
