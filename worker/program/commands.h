// The worker's modes. main() calls one of these functions, according to the first argument.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace atolld {

// Returns the text that `atoll-worker --help` prints.
std::string HelpText();

// Returns the text that `atoll-worker --version` prints.
std::string VersionText();

// Returns true if this error was already reported to the daemon. The daemon logs it, so main() must
// not print it again.
bool IsTold(const absl::Status& status);

// Each function takes the arguments after the mode's name. It fails with INVALID_ARGUMENT if the
// arguments are wrong; the process then exits with code 2.
absl::Status RunServe(
    const std::vector<std::string>& arguments);  // Takes "--socket ADDRESS [--device NAME]".
absl::Status RunGenerate(const std::vector<std::string>& arguments);
absl::Status RunEval(const std::vector<std::string>& arguments);
absl::Status RunExport(const std::vector<std::string>& arguments);
absl::Status RunImport(const std::vector<std::string>& arguments);
absl::Status RunData(const std::vector<std::string>& arguments);
absl::Status RunProbe(const std::vector<std::string>& arguments);
absl::Status RunMeasure(const std::vector<std::string>& arguments);

}  // namespace atolld
