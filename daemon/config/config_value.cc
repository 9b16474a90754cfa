#include "daemon/config/config_value.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <limits>
#include <optional>
#include <set>
#include <type_traits>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "compression/base/check.h"
#include "compression/base/names.h"
#include "compression/base/status_macros.h"
#include "compression/wire_codec.h"
#include "daemon/config/config_sections.h"
#include "daemon/config/week_hours.h"
#include "daemon/config/worker_program.h"

namespace atolld {
namespace {

// The shortest form that reads back as the same double.
std::string ShortestNumber(double value) {
  char buffer[64];
  const std::to_chars_result end = std::to_chars(buffer, buffer + sizeof buffer, value);
  return std::string(buffer, end.ptr);
}

constexpr size_t kMostShown = 64;  // of a wrong text

// Returns the value as a message shows it; only its kind if it is not a single value.
std::string KindOf(const RawValue& raw) {
  struct Visitor {
    std::string operator()(bool value) const { return value ? "true" : "false"; }
    std::string operator()(int64_t value) const { return absl::StrCat(value); }
    std::string operator()(double value) const { return ShortestNumber(value); }
    std::string operator()(const std::string& text) const {
      return absl::StrCat("\"", OneLine(text, kMostShown), "\"");
    }
    std::string operator()(const OtherValue& other) const { return other.description; }
  };
  return std::visit(Visitor(), raw);
}

// Returns "'adamw' or 'sgd'".
std::string Quoted(const std::vector<std::string>& names) {
  std::string joined;
  for (size_t i = 0; i < names.size(); ++i) {
    if (i > 0) absl::StrAppend(&joined, i + 1 == names.size() ? " or " : ", ");
    absl::StrAppend(&joined, "'", names[i], "'");
  }
  return joined;
}

std::string MustBeOf(const WholeNumber& number) {
  if (number.multiple_of == 1) {
    return absl::StrCat("a whole number from ", number.minimum, " to ", number.maximum);
  }
  return absl::StrCat("a multiple of ", number.multiple_of, " from ", number.minimum, " to ",
                      number.maximum);
}

std::string MustBeOf(const RealNumber& number) {
  const std::string low = ShortestNumber(number.minimum);
  const std::string high = ShortestNumber(number.maximum);
  switch (number.bounds) {
    case Bounds::kClosed:
      return absl::StrCat("a number from ", low, " to ", high);
    case Bounds::kOpenBelow:
      return absl::StrCat("a number above ", low, " and at most ", high);
    case Bounds::kOpenAbove:
      return absl::StrCat("a number from ", low, " to below ", high);
    case Bounds::kOpen:
      return absl::StrCat("a number above ", low, " and below ", high);
  }
  return "";
}

std::string MustBeOf(const Flag&) { return "true or false"; }

std::string MustBeOf(const TimeSpan& span) {
  return absl::StrCat("a time from \"", absl::FormatDuration(span.minimum), "\" to \"",
                      absl::FormatDuration(span.maximum), "\", with its unit");
}

std::string MustBeOf(const ByteCount& count) {
  return absl::StrCat("a number of bytes from ", count.minimum, " to ", count.maximum,
                      ", or one with its unit like \"20GB\" or \"64MiB\"");
}

std::string MustBeOf(const LineRate&) {
  return "a rate like \"100Mbit\", with kbit, Mbit or Gbit, at most \"1000Gbit\"";
}

absl::Status Refuse(absl::string_view name, absl::string_view must_be, absl::string_view found) {
  return absl::InvalidArgumentError(absl::StrCat(name, " must be ", must_be, ", not ", found));
}

absl::Status AssignValue(absl::string_view name, const WholeNumber& number, const RawValue& raw) {
  const int64_t* found = std::get_if<int64_t>(&raw);
  const uint64_t value = found == nullptr ? 0 : static_cast<uint64_t>(*found);
  if (found == nullptr || *found < 0 || value < number.minimum || value > number.maximum ||
      value % number.multiple_of != 0) {
    std::string shown = KindOf(raw);
    const bool point = std::holds_alternative<double>(raw) &&
                       shown.find_first_not_of("-0123456789") == std::string::npos;
    if (point) shown += ".0";  // what is wrong is the point
    return Refuse(name, MustBeOf(number), shown);
  }
  std::visit([value](auto* at) { *at = static_cast<std::decay_t<decltype(*at)>>(value); },
             number.at);
  return absl::OkStatus();
}

absl::Status AssignValue(absl::string_view name, const RealNumber& number, const RawValue& raw) {
  double value = 0;
  if (const int64_t* whole = std::get_if<int64_t>(&raw)) {
    value = static_cast<double>(*whole);
  } else if (const double* real = std::get_if<double>(&raw)) {
    value = *real;
  } else {
    return Refuse(name, MustBeOf(number), KindOf(raw));
  }
  const bool open_below = number.bounds == Bounds::kOpenBelow || number.bounds == Bounds::kOpen;
  const bool open_above = number.bounds == Bounds::kOpenAbove || number.bounds == Bounds::kOpen;
  const bool inside = value >= number.minimum && value <= number.maximum &&  // false for NaN
                      !(open_below && value == number.minimum) &&
                      !(open_above && value == number.maximum);
  if (!inside) return Refuse(name, MustBeOf(number), KindOf(raw));
  *number.at = value;
  return absl::OkStatus();
}

absl::Status AssignValue(absl::string_view name, const Flag& flag, const RawValue& raw) {
  const bool* value = std::get_if<bool>(&raw);
  if (value == nullptr) return Refuse(name, MustBeOf(flag), KindOf(raw));
  *flag.at = *value;
  return absl::OkStatus();
}

absl::Status AssignValue(absl::string_view name, const TimeSpan& span, const RawValue& raw) {
  const std::string* text = std::get_if<std::string>(&raw);
  if (text == nullptr) return Refuse(name, MustBeOf(span), KindOf(raw));
  absl::Duration value;
  if (!absl::ParseDuration(*text, &value) || value < span.minimum || value > span.maximum) {
    return Refuse(name, MustBeOf(span), absl::StrCat("\"", *text, "\""));
  }
  *span.at = value;
  return absl::OkStatus();
}

constexpr std::pair<absl::string_view, uint64_t> kRateUnits[] = {
    {"Gbit", 1000000000}, {"Mbit", 1000000}, {"kbit", 1000}};

struct ByteUnit {
  absl::string_view name;
  uint64_t bytes;
};

constexpr ByteUnit kByteUnits[] = {
    {"TiB", uint64_t{1} << 40}, {"TB", 1000000000000}, {"GiB", uint64_t{1} << 30},
    {"GB", 1000000000},         {"MiB", 1 << 20},      {"MB", 1000000},
    {"KiB", 1 << 10},           {"kB", 1000},          {"B", 1},
};

// Accepts only digits, few enough that a unit times their number fits 64 bits.
std::optional<uint64_t> ParseDigits(absl::string_view text, size_t most) {
  uint64_t number = 0;
  if (text.empty() || text.size() > most) return std::nullopt;
  for (const char c : text) {
    if (!absl::ascii_isdigit(static_cast<unsigned char>(c))) return std::nullopt;
    number = number * 10 + static_cast<uint64_t>(c - '0');
  }
  return number;
}

// Parses "64MiB", "1.5GB", "20 GB"; returns nothing if it is not a whole number of bytes below
// 2^63.
std::optional<uint64_t> ParseByteCount(absl::string_view text) {
  const ByteUnit* unit = nullptr;
  for (const ByteUnit& one : kByteUnits) {
    if (unit == nullptr && absl::ConsumeSuffix(&text, one.name)) unit = &one;
  }
  if (unit == nullptr) return std::nullopt;
  text = absl::StripTrailingAsciiWhitespace(text);
  const size_t point = text.find('.');
  const std::optional<uint64_t> whole = ParseDigits(text.substr(0, point), 18);
  if (!whole || *whole > std::numeric_limits<int64_t>::max() / unit->bytes - 1) return std::nullopt;
  uint64_t bytes = *whole * unit->bytes;
  if (point == absl::string_view::npos) return bytes;
  const absl::string_view digits = text.substr(point + 1);
  const std::optional<uint64_t> fraction = ParseDigits(digits, 6);
  if (!fraction) return std::nullopt;
  uint64_t parts = 1;
  for (size_t i = 0; i < digits.size(); ++i) parts *= 10;
  if (*fraction * unit->bytes % parts != 0) return std::nullopt;
  return bytes + *fraction * unit->bytes / parts;
}

// Uses the largest unit in which it is a whole number.
std::string FormatByteCount(uint64_t bytes) {
  const ByteUnit* best = nullptr;
  for (const ByteUnit& unit : kByteUnits) {
    if (bytes == 0 || bytes % unit.bytes != 0 || unit.bytes == 1) continue;
    if (best == nullptr || unit.bytes > best->bytes) best = &unit;
  }
  if (best == nullptr) return absl::StrCat(bytes);
  return absl::StrCat("\"", bytes / best->bytes, best->name, "\"");
}

absl::Status AssignValue(absl::string_view name, const ByteCount& count, const RawValue& raw) {
  std::optional<uint64_t> value;
  std::string found = KindOf(raw);
  if (const int64_t* number = std::get_if<int64_t>(&raw)) {
    if (*number >= 0) value = static_cast<uint64_t>(*number);
  } else if (const std::string* text = std::get_if<std::string>(&raw)) {
    value = ParseByteCount(*text);
    found = absl::StrCat("\"", *text, "\"");
  }
  if (!value.has_value() || *value < count.minimum || *value > count.maximum) {
    return Refuse(name, MustBeOf(count), found);
  }
  *count.at = *value;
  return absl::OkStatus();
}

absl::Status AssignValue(absl::string_view name, const LineRate& rate, const RawValue& raw) {
  const std::string* text = std::get_if<std::string>(&raw);
  if (text == nullptr) return Refuse(name, MustBeOf(rate), KindOf(raw));
  *rate.at = 0;
  if (text->empty()) return absl::OkStatus();
  const absl::StatusOr<double> parsed = ParseRate(*text);
  // A line of less than a byte a second is a mistake, and so is one that no machine has.
  if (!parsed.ok() || *parsed < 1 || *parsed > 125e9) {
    return Refuse(name, MustBeOf(rate), absl::StrCat("\"", *text, "\""));
  }
  *rate.at = static_cast<uint64_t>(std::llround(*parsed));
  return absl::OkStatus();
}

bool IsNames(const std::string& text) {
  for (const absl::string_view name : absl::StrSplit(text, ',')) {
    const absl::string_view bare = absl::StripAsciiWhitespace(name);
    if (bare.empty()) return false;
    for (const char c : bare) {
      if (!absl::ascii_islower(static_cast<unsigned char>(c)) &&
          !absl::ascii_isdigit(static_cast<unsigned char>(c)) && c != '_') {
        return false;
      }
    }
  }
  return true;
}

bool IsSha256(const std::string& text) {
  constexpr size_t kHexDigits = 64;
  return text.size() == kHexDigits && absl::c_all_of(text, [](char c) {
           return absl::ascii_isxdigit(static_cast<unsigned char>(c));
         });
}

bool IsAddress(absl::string_view text, bool may_be_port_zero) {
  if (absl::ConsumePrefix(&text, "unix:")) return absl::StartsWith(text, "/") && text.size() > 1;
  const size_t colon = text.rfind(':');
  if (colon == absl::string_view::npos || colon == 0) return false;
  const absl::string_view host = text.substr(0, colon);
  const absl::string_view port_text = text.substr(colon + 1);
  const bool bracketed = absl::StartsWith(host, "[") && absl::EndsWith(host, "]");
  if (!bracketed && absl::StrContains(host, ":")) return false;  // IPv6 needs its brackets
  uint32_t port = 0;
  if (port_text.empty() || !absl::ascii_isdigit(static_cast<unsigned char>(port_text[0])) ||
      !absl::SimpleAtoi(port_text, &port)) {
    return false;
  }
  return port <= 65535 && (port > 0 || may_be_port_zero);
}

bool IsAddresses(const std::string& text) {
  for (const absl::string_view one : absl::StrSplit(text, ',')) {
    if (!IsAddress(absl::StripAsciiWhitespace(one), /*may_be_port_zero=*/false)) return false;
  }
  return true;
}

// Returns true for one name, or several of one kind; no GPU twice.
bool IsDevice(const std::string& text) {
  if (text == "auto" || text == "cuda:all" || text == kMetal) return true;
  std::set<uint32_t> gpus;
  bool cpu = false;
  for (absl::string_view name : absl::StrSplit(text, ',')) {
    name = absl::StripAsciiWhitespace(name);
    uint32_t number = 0;
    if (name == "cpu") {
      cpu = true;
    } else if (name != "cuda" && (!absl::ConsumePrefix(&name, "cuda:") || name.empty() ||
                                  !absl::ascii_isdigit(static_cast<unsigned char>(name[0])) ||
                                  !absl::SimpleAtoi(name, &number) ||
                                  number >= 128)) {  // libtorch counts them in a byte
      return false;
    } else if (!gpus.insert(number).second) {
      return false;
    }
  }
  return cpu != !gpus.empty();
}

// One form of text. The forms of choices have no rule here: their choices are the rule.
struct FormRule {
  TextForm form;
  const char* must_be;
  const char* type;
  bool (*is_well_formed)(const std::string& value);
};

bool IsDialAddress(const std::string& value) {
  return IsAddress(value, /*may_be_port_zero=*/false);
}
bool IsListenAddress(const std::string& value) {
  return IsAddress(value, /*may_be_port_zero=*/true);
}

constexpr char kAddressLike[] = "an address like '127.0.0.1:7070' or 'unix:/run/atoll'";

const FormRule kFormRules[] = {
    {TextForm::kOneOf, "", "choice", nullptr},
    {TextForm::kCodec, "", "choice",
     [](const std::string& value) { return ParseCodecName(value).ok(); }},
    {TextForm::kId, "1 to 64 characters of a-z, 0-9 and '-'", "text",
     [](const std::string& value) { return IsValidId(value); }},
    {TextForm::kNames, "names of a-z, 0-9 and '_' with commas between", "text", IsNames},
    {TextForm::kSha256, "64 hexadecimal digits", "text", IsSha256},
    {TextForm::kPath, "a path; relative ones start at the file's folder", "path",
     [](const std::string&) { return true; }},
    {TextForm::kPathOrUri, "a path, relative ones from the file's folder on, or a URI",
     "path or URI", [](const std::string& value) { return !absl::StrContains(value, '\n'); }},
    {TextForm::kPlain, "one line", "text",
     [](const std::string& value) { return !absl::StrContains(value, '\n'); }},
    {TextForm::kDialAddress, kAddressLike, "address", IsDialAddress},
    {TextForm::kListenAddress, kAddressLike, "address", IsListenAddress},
    {TextForm::kAdvertised, "an address like '127.0.0.1:7070', or 'none' where nobody can dial in",
     "address",
     [](const std::string& value) { return value == kDialsOutOnly || IsDialAddress(value); }},
    {TextForm::kAddresses, "addresses like '10.0.0.1:7070' with commas between", "addresses",
     IsAddresses},
    {TextForm::kHours, "hours of a week like 'mon-fri 18:00-08:00, sat-sun'", "text",
     [](const std::string& value) { return WeekHours::Parse(value).ok(); }},
    {TextForm::kHttpAddress, "'auto', 'off' or an address like '127.0.0.1:7080'", "text",
     [](const std::string& value) {
       return value == "auto" || value == "off" ||
              (!absl::StartsWith(value, "unix:") && IsListenAddress(value));
     }},
    {TextForm::kDevice,
     "'auto', 'cpu', 'cuda', one GPU of several like 'cuda:1', 'cuda:all', 'mps', or a list of "
     "different GPUs or of CPUs like 'cuda:0,cuda:1' or 'cpu,cpu'",
     "text", IsDevice},
};

const FormRule& RuleOf(const Text& text) {
  const FormRule* const rule =
      absl::c_find_if(kFormRules, [&](const FormRule& one) { return one.form == text.form; });
  CHECK(rule != std::end(kFormRules));
  return *rule;
}

// Returns the values that are allowed; empty if there is another rule.
std::vector<std::string> ChoicesOf(const Text& text) {
  return text.form == TextForm::kCodec ? WireCodecNames() : text.choices;
}

std::string MustBeOf(const Text& text) {
  const FormRule& rule = RuleOf(text);
  return *rule.must_be == '\0' ? Quoted(ChoicesOf(text)) : rule.must_be;
}

bool IsWellFormed(const Text& text, const std::string& value) {
  const FormRule& rule = RuleOf(text);
  return rule.is_well_formed == nullptr ? absl::c_linear_search(text.choices, value)
                                        : rule.is_well_formed(value);
}

absl::Status AssignValue(absl::string_view name, const Text& text, const RawValue& raw) {
  const std::string* value = std::get_if<std::string>(&raw);
  if (value == nullptr) return Refuse(name, "a string", KindOf(raw));
  if (absl::StrContains(*value, '\0')) {
    return Refuse(name, "a string without zero bytes", "this one");
  }
  if (value->empty() && !text.may_be_empty && text.form != TextForm::kOneOf) {
    return Refuse(name, "set", "empty");
  }
  if (!(value->empty() && text.may_be_empty) && !IsWellFormed(text, *value)) {
    const std::vector<std::string> names = ChoicesOf(text);
    const std::string near = names.empty() ? "" : LikelyName(*value, names);
    return Refuse(name, MustBeOf(text),
                  absl::StrCat("'", *value, "'",
                               near.empty() ? "" : absl::StrCat("; did you mean '", near, "'?")));
  }
  *text.at = *value;
  return absl::OkStatus();
}

std::string TomlString(absl::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      absl::StrAppend(&out, "\\", absl::string_view(&c, 1));
    } else if (byte < 0x20 || byte == 0x7f) {
      absl::StrAppendFormat(&out, "\\u%04X", byte);
    } else {
      out.push_back(c);
    }
  }
  out.push_back('"');
  return out;
}

}  // namespace

absl::Status Assign(const FieldValue& value, absl::string_view name, const RawValue& raw) {
  return std::visit([&](const auto& one) { return AssignValue(name, one, raw); }, value);
}

std::string MustBe(const FieldValue& value) {
  const Text* text = std::get_if<Text>(&value);
  const std::string must_be = std::visit([](const auto& one) { return MustBeOf(one); }, value);
  return text != nullptr && text->may_be_empty ? absl::StrCat(must_be, "; or empty") : must_be;
}

std::string TypeOf(const FieldValue& value) {
  struct Visitor {
    std::string operator()(const WholeNumber&) const { return "whole number"; }
    std::string operator()(const RealNumber&) const { return "number"; }
    std::string operator()(const Flag&) const { return "true or false"; }
    std::string operator()(const TimeSpan&) const { return "time"; }
    std::string operator()(const ByteCount&) const { return "bytes"; }
    std::string operator()(const LineRate&) const { return "rate"; }
    std::string operator()(const Text& text) const { return RuleOf(text).type; }
  };
  return std::visit(Visitor(), value);
}

std::string FormatValue(const FieldValue& value) {
  struct Visitor {
    std::string operator()(const WholeNumber& number) const {
      return std::visit([](const auto* at) { return absl::StrCat(*at); }, number.at);
    }
    std::string operator()(const RealNumber& number) const { return ShortestNumber(*number.at); }
    std::string operator()(const Flag& flag) const { return *flag.at ? "true" : "false"; }
    std::string operator()(const TimeSpan& span) const {
      return TomlString(absl::FormatDuration(*span.at));
    }
    std::string operator()(const ByteCount& count) const { return FormatByteCount(*count.at); }
    std::string operator()(const LineRate& rate) const {
      return TomlString(*rate.at == 0 ? "" : FormatLineRate(*rate.at));
    }
    std::string operator()(const Text& text) const { return TomlString(*text.at); }
  };
  return std::visit(Visitor(), value);
}

absl::StatusOr<double> ParseRate(absl::string_view text) {
  const absl::string_view trimmed = absl::StripAsciiWhitespace(text);
  const size_t end = std::min(trimmed.find_first_not_of("0123456789."), trimmed.size());
  const absl::string_view unit = absl::StripLeadingAsciiWhitespace(trimmed.substr(end));
  double number = 0;
  for (const auto& [name, bits] : kRateUnits) {
    if (unit != name || end == 0 || !absl::ascii_isdigit(trimmed[0])) continue;
    if (!absl::SimpleAtod(trimmed.substr(0, end), &number) || number <= 0) break;
    return number * static_cast<double>(bits) / 8;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "'", text, "' is not a rate: write a number above 0 and one of kbit, Mbit, Gbit"));
}

std::string FormatLineRate(uint64_t bytes_per_second) {
  for (const auto& [name, bits] : kRateUnits) {
    if (bytes_per_second % (bits / 8) == 0) {
      return absl::StrCat(bytes_per_second / (bits / 8), name);
    }
  }
  return absl::StrFormat("%d.%03dkbit", bytes_per_second / 125, bytes_per_second % 125 * 8);
}

}  // namespace atolld
