#include "daemon/experiment/setting_grid.h"

#include <set>

#include "absl/strings/str_cat.h"

namespace atolld {
namespace {

// Returns "alpha", or "outer.rule" if another axis has a key of that name.
std::string ShortName(const SettingChange& change, const std::vector<GridAxis>& axes) {
  size_t same = 0;
  for (const GridAxis& axis : axes) same += axis.front().key == change.key ? 1 : 0;
  return same > 1 ? change.Name() : change.key;
}

}  // namespace

absl::StatusOr<std::vector<ExperimentSetting>> ExpandSettings(
    const std::vector<ExperimentSetting>& named, const std::vector<GridAxis>& axes,
    const std::string& base) {
  std::vector<ExperimentSetting> settings = named;
  if (settings.empty()) settings.push_back({axes.empty() ? base : "", {}});
  for (const GridAxis& axis : axes) {
    std::vector<ExperimentSetting> wider;
    for (const ExperimentSetting& setting : settings) {
      for (const SettingChange& change : axis) {
        ExperimentSetting one = setting;
        absl::StrAppend(&one.name, one.name.empty() ? "" : ", ", ShortName(change, axes), " = ",
                        change.ValueText());
        one.changes.push_back(change);
        wider.push_back(std::move(one));
      }
      if (wider.size() > kMostSettings) {
        return absl::InvalidArgumentError(absl::StrCat("the grid has more than ", kMostSettings,
                                                       " combinations; leave some values out"));
      }
    }
    settings = std::move(wider);
  }
  std::set<std::string> names;
  for (const ExperimentSetting& setting : settings) {
    if (names.insert(setting.name).second) continue;
    return absl::InvalidArgumentError(absl::StrCat("two settings are called '", setting.name,
                                                   "'; give each a name or a value of its own"));
  }
  return settings;
}

}  // namespace atolld
