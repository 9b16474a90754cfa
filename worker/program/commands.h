// The worker's modes, one function each, as main() dispatches them.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace atolld {

// What `atoll-worker --help` prints.
std::string HelpText();

// Whether the daemon has been told of this error, which logs it: main() is not to say it again.
bool IsTold(const absl::Status& status);

// Each takes the arguments after the mode's name. INVALID_ARGUMENT: the call is wrong (exit code
// 2).
absl::Status RunServe(
    const std::vector<std::string>& arguments);  // --socket ADDRESS [--device NAME]
absl::Status RunGenerate(const std::vector<std::string>& arguments);
absl::Status RunEval(const std::vector<std::string>& arguments);
absl::Status RunExport(const std::vector<std::string>& arguments);
absl::Status RunImport(const std::vector<std::string>& arguments);
absl::Status RunData(const std::vector<std::string>& arguments);
absl::Status RunProbe(const std::vector<std::string>& arguments);
absl::Status RunMeasure(const std::vector<std::string>& arguments);

}  // namespace atolld
