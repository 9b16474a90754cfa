#include "daemon/machine/limit_book.h"

#include <cstdint>
#include <variant>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "compression/base/check.h"
#include "compression/base/names.h"
#include "compression/base/status_macros.h"
#include "daemon/config/config_table.h"
#include "daemon/config/config_value.h"

namespace atolld {
namespace {

std::vector<ConfigField> LimitsOf(Config& config) {
  for (ConfigSection& section : ConfigSections(config)) {
    if (section.name == "machine") return std::move(section.fields);
  }
  return {};
}

// Returns the value that the text means in a config, for a field of this kind.
RawValue RawOfText(const FieldValue& field, absl::string_view text) {
  text = absl::StripAsciiWhitespace(text);
  int64_t whole = 0;
  double real = 0;
  if (std::holds_alternative<Flag>(field) && (text == "true" || text == "false")) {
    return text == "true";
  }
  const bool may_be_whole =
      std::holds_alternative<ByteCount>(field) || std::holds_alternative<WholeNumber>(field);
  if (may_be_whole && absl::SimpleAtoi(text, &whole)) return whole;
  if (std::holds_alternative<RealNumber>(field) && absl::SimpleAtod(text, &real)) return real;
  if (text.size() >= 2 && text.front() == '"' && text.back() == '"') {
    text = text.substr(1, text.size() - 2);
  }
  return std::string(text);
}

const ConfigField* Find(const std::vector<ConfigField>& fields, absl::string_view key) {
  for (const ConfigField& field : fields) {
    if (field.key == key) return &field;
  }
  return nullptr;
}

absl::Status NoSuchLimit(const std::vector<ConfigField>& fields, absl::string_view key) {
  std::vector<std::string> names;
  for (const ConfigField& field : fields) names.push_back(field.key);
  const std::string nearest = NearestName(key, names);
  return absl::InvalidArgumentError(
      absl::StrCat("there is no limit '", key, "'",
                   nearest.empty() ? std::string("; `atoll limits show` lists them")
                                   : absl::StrCat("; the nearest is '", nearest, "'")));
}

std::set<std::string> DifferentFromDefault(Config config) {
  Config plain;
  const std::vector<ConfigField> defaults = LimitsOf(plain);
  std::set<std::string> different;
  for (const ConfigField& field : LimitsOf(config)) {
    if (FormatValue(field.value) != FormatValue(Find(defaults, field.key)->value)) {
      different.insert(field.key);
    }
  }
  return different;
}

}  // namespace

LimitBook::LimitBook(const MachineConfig& configured) {
  config_.machine = configured;
  configured_ = DifferentFromDefault(config_);
}

absl::Status LimitBook::Set(absl::Span<const std::pair<std::string, std::string>> values,
                            bool until_restart) {
  Config changed = config_;
  const std::vector<ConfigField> fields = LimitsOf(changed);
  for (const auto& [key, value] : values) {
    const ConfigField* const field = Find(fields, key);
    if (field == nullptr) return NoSuchLimit(fields, key);
    RETURN_IF_ERROR(Assign(field->value, key, RawOfText(field->value, value)));
  }
  config_.machine = changed.machine;
  for (const auto& [key, value] : values) {
    set_.insert(key);
    if (!until_restart) kept_[key] = FormatValue(Find(fields, key)->value);
  }
  return absl::OkStatus();
}

void LimitBook::Configure(const MachineConfig& configured) {
  Config changed;
  changed.machine = configured;
  configured_ = DifferentFromDefault(changed);
  const std::vector<ConfigField> now = LimitsOf(config_);
  const std::vector<ConfigField> fields = LimitsOf(changed);
  for (const std::string& key : set_) {
    const FieldValue& field = Find(fields, key)->value;
    CHECK_OK(Assign(field, key, RawOfText(field, FormatValue(Find(now, key)->value))));
  }
  config_.machine = changed.machine;
}

std::string LimitBook::Kept() const {
  std::string text =
      "# What `atoll limits set` has changed. It precedes [machine] of the config, from the next\n"
      "# start of the daemon on; without a line the config holds again.\n"
      "[machine]\n";
  for (const auto& [key, value] : kept_) absl::StrAppend(&text, key, " = ", value, "\n");
  return text;
}

absl::Status LimitBook::Load(absl::string_view kept) {
  int number = 0;
  for (absl::string_view line : absl::StrSplit(kept, '\n')) {
    ++number;
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || line[0] == '#' || line == "[machine]") continue;
    const std::pair<absl::string_view, absl::string_view> sides =
        absl::StrSplit(line, absl::MaxSplits('=', 1));
    const std::string key(absl::StripAsciiWhitespace(sides.first));
    const absl::Status set = Set({{key, std::string(sides.second)}}, false);
    RETURN_IF_ERROR(Annotate(set, absl::StrCat("line ", number)));
  }
  return absl::OkStatus();
}

std::vector<v1::Limit> LimitBook::List() {
  std::vector<v1::Limit> all;
  for (const ConfigField& field : LimitsOf(config_)) {
    v1::Limit limit;
    limit.set_key(field.key);
    limit.set_value(FormatValue(field.value));
    limit.set_from(set_.count(field.key) != 0          ? "set"
                   : configured_.count(field.key) != 0 ? "config"
                                                       : "default");
    limit.set_meaning(field.meaning);
    all.push_back(std::move(limit));
  }
  return all;
}

}  // namespace atolld
