// JSON that others wrote: parsed without exceptions, and nothing in it twice.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace atolld {

// An object. INVALID_ARGUMENT: `text` is none, is nested deeper than a config is, or has a key
// twice, whose last value other readers would take.
absl::StatusOr<nlohmann::json> ParseJsonObject(absl::string_view text);

// What `object` has under `key`; `usual` where it has nothing or null. INVALID_ARGUMENT: another
// type.
absl::StatusOr<uint64_t> CountIn(const nlohmann::json& object, const std::string& key,
                                 uint64_t usual);
absl::StatusOr<double> NumberIn(const nlohmann::json& object, const std::string& key, double usual);
absl::StatusOr<bool> FlagIn(const nlohmann::json& object, const std::string& key, bool usual);
absl::StatusOr<std::string> TextIn(const nlohmann::json& object, const std::string& key,
                                   const std::string& usual);

}  // namespace atolld
