// Reads parts of a JSON document that another program wrote. If a part is missing or has another
// type, the result is null, an empty text or the given default. Pure. May be called from any
// thread.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace atolld {

// Returns null if `json` is not an object or does not have this key.
const nlohmann::json& PartOf(const nlohmann::json& json, const char* key);

std::string TextPart(const nlohmann::json& json, const char* key);

bool FlagPart(const nlohmann::json& json, const char* key, bool otherwise);

// Returns true if `part` is not null, 0, false or empty.
bool SaysSomething(const nlohmann::json& part);

}  // namespace atolld
