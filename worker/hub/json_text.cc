#include "worker/hub/json_text.h"

#include <limits>
#include <set>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"

namespace atolld {
namespace {

constexpr int kDeepest = 32;

absl::Status Wrong(const std::string& key, absl::string_view must_be) {
  return absl::InvalidArgumentError(absl::StrCat(key, " must be ", must_be));
}

// Returns the value under `key` unless it is missing or null.
const nlohmann::json* Said(const nlohmann::json& object, const std::string& key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

}  // namespace

absl::StatusOr<nlohmann::json> ParseJsonObject(absl::string_view text) {
  using Event = nlohmann::json::parse_event_t;
  std::vector<std::set<std::string>> open;
  std::string fault;
  const auto watch = [&](int depth, Event event, nlohmann::json& value) {
    if (!fault.empty()) return false;
    if (depth > kDeepest) fault = absl::StrCat("it is nested deeper than ", kDeepest);
    if (event == Event::object_start) open.emplace_back();
    if (event == Event::object_end) open.pop_back();
    if (event == Event::key) {
      const std::string& key = value.get_ref<const std::string&>();
      if (!open.back().insert(key).second) {
        fault = absl::StrCat("\"", absl::CEscape(key), "\" is there twice");
      }
    }
    return fault.empty();
  };
  nlohmann::json parsed =
      nlohmann::json::parse(text.begin(), text.end(), watch, /*allow_exceptions=*/false);
  if (!fault.empty()) return absl::InvalidArgumentError(fault);
  if (!parsed.is_object()) return absl::InvalidArgumentError("it is not a JSON object");
  return parsed;
}

absl::StatusOr<uint64_t> CountIn(const nlohmann::json& object, const std::string& key,
                                 uint64_t usual) {
  const nlohmann::json* const value = Said(object, key);
  if (value == nullptr) return usual;
  if (!value->is_number_unsigned()) return Wrong(key, "a whole number of 0 or more");
  return value->get<uint64_t>();
}

absl::StatusOr<double> NumberIn(const nlohmann::json& object, const std::string& key,
                                double usual) {
  const nlohmann::json* const value = Said(object, key);
  if (value == nullptr) return usual;
  if (!value->is_number()) return Wrong(key, "a number");
  return value->get<double>();
}

absl::StatusOr<bool> FlagIn(const nlohmann::json& object, const std::string& key, bool usual) {
  const nlohmann::json* const value = Said(object, key);
  if (value == nullptr) return usual;
  if (!value->is_boolean()) return Wrong(key, "true or false");
  return value->get<bool>();
}

absl::StatusOr<std::string> TextIn(const nlohmann::json& object, const std::string& key,
                                   const std::string& usual) {
  const nlohmann::json* const value = Said(object, key);
  if (value == nullptr) return usual;
  if (!value->is_string()) return Wrong(key, "a string");
  return value->get<std::string>();
}

absl::Status RefuseKey(absl::string_view key, absl::string_view found, absl::string_view known) {
  return absl::InvalidArgumentError(
      absl::StrCat(key, " is ", absl::CEscape(found), "; what is read is ", known));
}

absl::Status ReadCount(const nlohmann::json& object, const std::string& key, uint64_t usual,
                       uint32_t* out) {
  ASSIGN_OR_RETURN(const uint64_t value, CountIn(object, key, usual));
  if (value > std::numeric_limits<uint32_t>::max()) {
    return RefuseKey(key, absl::StrCat(value), "below 2^32");
  }
  *out = static_cast<uint32_t>(value);
  return absl::OkStatus();
}

absl::Status MustBe(const nlohmann::json& object, const std::string& key, bool expected,
                    bool usual) {
  ASSIGN_OR_RETURN(const bool value, FlagIn(object, key, usual));
  if (value == expected) return absl::OkStatus();
  return RefuseKey(key, value ? "true" : "false", expected ? "true" : "false");
}

}  // namespace atolld
