// Parses JSON that other programs wrote, without exceptions, and refuses duplicate keys.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace atolld {

// Parses a JSON object. Fails with INVALID_ARGUMENT if `text` is not a JSON object, is nested too
// deeply for a config, or has a key twice, because other readers would use only the last value.
absl::StatusOr<nlohmann::json> ParseJsonObject(absl::string_view text);

// These functions return the value of `key` in `object`, or `usual` if it is missing or null. They
// fail with INVALID_ARGUMENT if the value has another type.
absl::StatusOr<uint64_t> CountIn(const nlohmann::json& object, const std::string& key,
                                 uint64_t usual);
absl::StatusOr<double> NumberIn(const nlohmann::json& object, const std::string& key, double usual);
absl::StatusOr<bool> FlagIn(const nlohmann::json& object, const std::string& key, bool usual);
absl::StatusOr<std::string> TextIn(const nlohmann::json& object, const std::string& key,
                                   const std::string& usual);

// Returns the INVALID_ARGUMENT error "KEY is FOUND; what is read is KNOWN".
absl::Status RefuseKey(absl::string_view key, absl::string_view found, absl::string_view known);

// Sets `out` to the count under `key`, or to `usual` if it is missing or null. Fails with
// INVALID_ARGUMENT if it is not below 2^32.
absl::Status ReadCount(const nlohmann::json& object, const std::string& key, uint64_t usual,
                       uint32_t* out);

// Checks a key that changes what is computed unless it has our value.
absl::Status MustBe(const nlohmann::json& object, const std::string& key, bool expected,
                    bool usual);

}  // namespace atolld
