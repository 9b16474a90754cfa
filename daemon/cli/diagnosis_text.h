// How `atoll run diagnose` shows what slows a run (diagnosis.h): as JSON, or in lines of text.
//
// Pure functions, any thread.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "atoll/v1/admin.pb.h"

namespace atolld {

// The usual times of a round, and all findings; "healthy" is true only of a run that can be judged.
nlohmann::ordered_json DiagnosisJson(const v1::RunStatus& status);

// The usual round first, then each finding with the config line to change and the advice; without
// one, why there is none.
std::vector<std::string> DiagnosisText(const v1::RunStatus& status);

}  // namespace atolld
