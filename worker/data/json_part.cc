#include "worker/data/json_part.h"

#include <nlohmann/json.hpp>

namespace atolld {

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
