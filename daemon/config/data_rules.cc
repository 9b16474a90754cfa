#include "daemon/config/data_rules.h"

#include "absl/strings/str_cat.h"

namespace atolld {
namespace {

DataFault FaultOfConversations(const DataConfig& data) {
  const DataConfig usual;
  if (!IsChat(data)) {
    const char* key = data.loss_on != usual.loss_on   ? "loss_on"
                      : data.packing != usual.packing ? "packing"
                                                      : nullptr;
    if (key == nullptr) return {};
    return {{{"data", key}},
            absl::StrCat("[data] ", key,
                         " is for conversations; set template, or kind = 'chat' for prompts and "
                         "completions without one")};
  }
  if (data.kind != "text" && data.kind != "jsonl" && data.kind != "chat") {
    return {{{"data", "template"}, {"data", "kind"}},
            absl::StrCat("[data] template is for conversations, which are lines of JSON, and kind "
                         "is '",
                         data.kind, "'; leave one of them out")};
  }
  if (!data.field.empty()) {
    return {{{"data", "field"}},
            "[data] field must be empty with conversations, which have their text under messages, "
            "or prompt and completion"};
  }
  if (data.tokenizer == kCharTokenizer) {
    return {{{"data", "tokenizer"}},
            "[data] tokenizer must not be 'chars' with conversations; take a file"};
  }
  if (!data.chat_template.empty() && data.tokenizer == kByteTokenizer) {
    return {{{"data", "template"}, {"data", "tokenizer"}},
            absl::StrCat("[data] template '", data.chat_template,
                         "' needs a tokenizer's file that has its tokens, and tokenizer is "
                         "'bytes'")};
  }
  return {};
}

}  // namespace

DataFault FaultOfData(const DataConfig& data) {
  const uint32_t width = data.width;
  if ((width & (width - 1)) != 0) {
    return {{{"data", "width"}},
            absl::StrCat("[data] width is ", width,
                         "; it must be 1, 2, 4 or 8 bytes, 16, 32 or 64 bits, or 0")};
  }
  return FaultOfConversations(data);
}

}  // namespace atolld
