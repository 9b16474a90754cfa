// Reads the JSON records of a corpus, each of which is a line or an element of an array: finds the
// end of a record and its text. chat_record.h reads conversations. Pure. May be called from any
// thread.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace atolld {

// Returns the text in the record's field `field`, which is a key ("body"), or keys and indices
// separated by dots ("content.text", "messages.0.content"). If the record is a string, returns that
// string. NaN and Infinity, which Python writes, are accepted in other fields. Fails with
// INVALID_ARGUMENT if the record is not JSON or the field is not a text; the message is the end of
// a sentence that begins with the place of the record.
absl::StatusOr<std::string> TextOfRecord(absl::string_view record, const std::string& field);

// Parses a record; NaN and Infinity become null. Fails with INVALID_ARGUMENT if the record is not
// JSON, with a message like that of TextOfRecord.
absl::StatusOr<nlohmann::json> ParseRecord(absl::string_view record);

// Returns the kind of a value in words for messages: "a text", "a list", "null", ...
std::string KindOfValue(const nlohmann::json& value);

// Returns the first few keys of an object, quoted, for messages.
std::string KeysOf(const nlohmann::json& record);

// Returns true if `text` is a whole JSON object.
bool IsJsonObject(absl::string_view text);

// Returns the end of the array's element that begins at offset `at`, which is the offset of the
// next comma or bracket after it; npos if `text` ends before that.
size_t EndOfElement(absl::string_view text, size_t at);

// -----------------------------------------------------------------------------------------------

// Reads parts of a JSON document that another program wrote. If a part is missing or has another
// type, the result is null, an empty text or the given default. Pure. May be called from any
// thread.

// Returns null if `json` is not an object or does not have this key.
const nlohmann::json& PartOf(const nlohmann::json& json, const char* key);

std::string TextPart(const nlohmann::json& json, const char* key);

bool FlagPart(const nlohmann::json& json, const char* key, bool otherwise);

// Returns true if `part` is not null, 0, false or empty.
bool SaysSomething(const nlohmann::json& part);

}  // namespace atolld
