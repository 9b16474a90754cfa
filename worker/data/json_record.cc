#include "worker/data/json_record.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "compression/base/status_macros.h"

namespace atolld {
namespace {

using Record = nlohmann::json;

constexpr size_t kShownKeys = 5;

absl::Status BadRecord(absl::string_view what) { return absl::InvalidArgumentError(what); }

// Where and why the parser gave up.
class FaultListener final : public nlohmann::json_sax<Record> {
 public:
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(size_t) override { return true; }
  bool key(string_t&) override { return true; }
  bool end_object() override { return true; }
  bool start_array(size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    position_ = position;
    what_ = error.what();
    return false;
  }

  size_t position() const { return position_; }
  const std::string& what() const { return what_; }

 private:
  size_t position_ = 0;
  std::string what_;
};

// Returns the reason in our own words; the parser's speak of its grammar.
std::string WhyNoJson(absl::string_view record) {
  FaultListener listener;
  Record::sax_parse(record.begin(), record.end(), &listener);
  const std::string& what = listener.what();
  const std::string at = absl::StrCat("is not JSON at its byte ", listener.position(), ": ");
  if (absl::StrContains(what, "surrogate")) {
    return absl::StrCat(at,
                        "half of a surrogate pair (\\ud800 to \\udfff) stands alone, as where a "
                        "text was cut inside a character");
  }
  if (absl::StrContains(what, "control character")) {
    return absl::StrCat(at, "a control character inside a string must be written as \\u00XX");
  }
  if (absl::StrContains(what, "end of input") || absl::StrContains(what, "missing closing quote")) {
    return absl::StrCat(at, "it ends too early");
  }
  if (absl::StrContains(what, "ill-formed UTF-8")) return absl::StrCat(at, "it is not UTF-8");
  const size_t from = listener.position() == 0 ? 0 : listener.position() - 1;
  return absl::StrCat(at, "\"", absl::Utf8SafeCEscape(record.substr(from, 12)),
                      "\" is not expected there");
}

// `record` with null for NaN, Infinity and -Infinity outside of strings.
std::string WithoutPythonNumbers(absl::string_view record) {
  std::string out;
  bool in_string = false;
  for (size_t i = 0; i < record.size(); ++i) {
    if (in_string && record[i] == '\\' && i + 1 < record.size()) {
      out += record[i++];
    } else if (record[i] == '"') {
      in_string = !in_string;
    } else if (!in_string) {
      bool replaced = false;
      for (const absl::string_view word : {"NaN", "Infinity", "-Infinity"}) {
        if (!absl::StartsWith(record.substr(i), word)) continue;
        out += "null";
        i += word.size() - 1;
        replaced = true;
        break;
      }
      if (replaced) continue;
    }
    out += record[i];
  }
  return out;
}

// Returns null if there is nothing under these names.
const Record* Follow(const Record& record, const std::string& field) {
  if (const auto whole = record.find(field); whole != record.end()) return &*whole;
  const Record* at = &record;
  for (const absl::string_view part : absl::StrSplit(field, '.')) {
    uint64_t index = 0;
    if (at->is_array() && absl::SimpleAtoi(part, &index) && index < at->size()) {
      at = &(*at)[index];
      continue;
    }
    const auto found = at->is_object() ? at->find(std::string(part)) : at->end();
    if (found == at->end()) return nullptr;
    at = &*found;
  }
  return at;
}

constexpr char kNameIt[] =
    "; name the key that holds the text as [data] field or --field (\"a.b\" for a nested one, "
    "\"a.0.b\" for one in a list)";

// Returns what TextOfRecord adds for a record that is a conversation; empty for any other.
std::string HintOfConversation(const Record& record) {
  const auto both = [&](const char* one, const char* other) {
    return record.contains(one) && record.contains(other);
  };
  if (!record.contains("messages") && !record.contains("conversations") &&
      !both("prompt", "completion") && !both("instruction", "output")) {
    return "";
  }
  return "; to train on conversations set [data] template (--template) to \"chatml\" or "
         "\"llama3\", or kind to \"chat\" for prompts and completions without one";
}

}  // namespace

absl::StatusOr<Record> ParseRecord(absl::string_view record) {
  Record json = Record::parse(record.begin(), record.end(), nullptr, /*allow_exceptions=*/false);
  if (!json.is_discarded()) return json;
  if (absl::StrContains(record, "NaN") || absl::StrContains(record, "Infinity")) {
    json = Record::parse(WithoutPythonNumbers(record), nullptr, /*allow_exceptions=*/false);
    if (!json.is_discarded()) return json;
  }
  return BadRecord(WhyNoJson(record));
}

std::string KindOfValue(const Record& value) {
  if (value.is_null()) return "null";
  if (value.is_string()) return "a text";
  if (value.is_array()) return "a list";
  if (value.is_object()) return "an object";
  return value.is_boolean() ? "true or false" : "a number";
}

std::string KeysOf(const Record& record) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : record.items()) {
    if (keys.size() == kShownKeys) {
      keys.push_back("...");
      break;
    }
    keys.push_back(absl::StrCat("\"", absl::Utf8SafeCEscape(key), "\""));
  }
  return keys.empty() ? "no key at all" : absl::StrJoin(keys, ", ");
}

absl::StatusOr<std::string> TextOfRecord(absl::string_view record, const std::string& field) {
  ASSIGN_OR_RETURN(const Record json, ParseRecord(record));
  if (json.is_string()) return json.get<std::string>();
  if (!json.is_object()) {
    return BadRecord(absl::StrCat("is ", KindOfValue(json), ", not a JSON object"));
  }
  const Record* const text = Follow(json, field);
  if (text == nullptr) {
    return BadRecord(absl::StrCat("has no \"", field, "\"; it has ", KeysOf(json), kNameIt,
                                  HintOfConversation(json)));
  }
  if (!text->is_string()) {
    const bool nested = text->is_array() || text->is_object();
    return BadRecord(absl::StrCat("has ", KindOfValue(*text), " under \"", field, "\", not a text",
                                  nested ? kNameIt : "", HintOfConversation(json)));
  }
  return text->get<std::string>();
}

bool IsJsonObject(absl::string_view text) {
  const absl::StatusOr<Record> json = ParseRecord(text);
  return json.ok() && json->is_object();
}

size_t EndOfElement(absl::string_view text, size_t at) {
  int depth = 0;
  bool in_string = false;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (in_string) {
      if (c == '\\') {
        ++at;
      } else if (c == '"') {
        in_string = false;
      }
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if (depth == 0 && (c == ',' || c == ']')) {
      return at;
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return absl::string_view::npos;
}

// -----------------------------------------------------------------------------------------------

const nlohmann::json& PartOf(const nlohmann::json& json, const char* key) {
  static const nlohmann::json kNullPart;
  if (!json.is_object()) return kNullPart;
  const auto found = json.find(key);
  return found == json.end() ? kNullPart : *found;
}

std::string TextPart(const nlohmann::json& json, const char* key) {
  const nlohmann::json& part = PartOf(json, key);
  return part.is_string() ? part.get<std::string>() : "";
}

bool FlagPart(const nlohmann::json& json, const char* key, bool otherwise) {
  const nlohmann::json& part = PartOf(json, key);
  return part.is_boolean() ? part.get<bool>() : otherwise;
}

bool SaysSomething(const nlohmann::json& part) {
  if (part.is_number()) return part.get<double>() != 0;
  if (part.is_boolean()) return part.get<bool>();
  if (part.is_string()) return !part.get_ref<const std::string&>().empty();
  return !part.empty();
}

}  // namespace atolld
