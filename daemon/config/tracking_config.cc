#include "daemon/config/tracking_config.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/config/python_program.h"

namespace atolld {

std::string FindTrackingProgram(const TrackingConfig& tracking, const std::string& folder) {
  return tracking.program.empty() ? FindPythonProgram("atoll-track", folder) : tracking.program;
}

std::string NoTrackingProgramText() {
  return "[tracking] needs atoll-track, which is neither in PATH nor beside this program: `pip "
         "install 'atoll[track]'` in a virtual environment, and name FOLDER/bin/atoll-track as "
         "[tracking] program";
}

std::vector<std::string> TrackingTargets(const TrackingConfig& tracking) {
  const std::pair<const char*, const std::string&> trackers[] = {
      {"tensorboard", tracking.tensorboard},
      {"wandb", tracking.wandb},
      {"mlflow", tracking.mlflow}};
  std::vector<std::string> arguments;
  for (const auto& [name, target] : trackers) {
    if (target.empty()) continue;
    arguments.emplace_back("--to");
    arguments.push_back(absl::StrCat(name, ":", target));
  }
  return arguments;
}

}  // namespace atolld
