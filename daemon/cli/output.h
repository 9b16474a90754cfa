// Prints or writes the answer of a verb: lines for people, or JSON for programs.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace atolld {

void PrintLines(const std::vector<std::string>& lines);
void PrintJson(const nlohmann::ordered_json& json);

// Prints the JSON if `as_json` is true, and the lines otherwise. Returns kDone.
int PrintAnswer(bool as_json, const nlohmann::ordered_json& json,
                const std::vector<std::string>& lines);

// Writes a file; `path` may be relative. Fails as WriteFileDurably.
absl::Status WriteText(const std::string& path, const std::string& text);

// Writes the result of a verb to the file that its option names, to standard output if that is "-",
// or nowhere if it is empty. Returns true for standard output, which then must get nothing else.
absl::StatusOr<bool> WriteResult(const std::string& path, const std::string& text);

}  // namespace atolld
