// Parts of a JSON document that others wrote: what is not there, or of another type, is null, empty
// or the value that is given. Pure functions; any thread.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace atolld {

// Null: `json` is no object, or has no such key.
const nlohmann::json& PartOf(const nlohmann::json& json, const char* key);

std::string TextPart(const nlohmann::json& json, const char* key);

bool FlagPart(const nlohmann::json& json, const char* key, bool otherwise);

// Whether a part says something: it is not null, 0, false or empty.
bool SaysSomething(const nlohmann::json& part);

}  // namespace atolld
