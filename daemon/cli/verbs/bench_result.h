// Where the verbs of `atoll bench` write what they have measured.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/statusor.h"

namespace atolld {

// To the file `path`, to standard output if that is "-", nowhere if it is empty. True: to standard
// output, and nothing else belongs there. Errors as WriteFileDurably's.
absl::StatusOr<bool> WriteResult(const nlohmann::ordered_json& json, const std::string& path);

}  // namespace atolld
