// Formats the findings about what slows a run (diagnosis.h) for `atoll run diagnose`, as JSON or as
// lines of text.
//
// Pure. May be called from any thread.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "atoll/v1/admin.pb.h"

namespace atolld {

// Returns the usual times of a round and all findings. "healthy" is true only if there are enough
// rounds to judge the run.
nlohmann::ordered_json DiagnosisJson(const v1::RunStatus& status);

// Returns lines with the usual times of a round, then each finding with the config line to change
// and the advice. If there is no finding, a line says why.
std::vector<std::string> DiagnosisText(const v1::RunStatus& status);

}  // namespace atolld
