#include "daemon/experiment/experiment.h"

#include <variant>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace atolld {

std::string SettingChange::Name() const { return absl::StrCat(section, ".", key); }

std::string SettingChange::ValueText() const {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* number = std::get_if<double>(&value)) return absl::StrCat(*number);
  if (const auto* whole = std::get_if<int64_t>(&value)) return absl::StrCat(*whole);
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  return std::get<OtherValue>(value).description;
}

std::vector<std::string> Experiment::SettingNames() const {
  std::vector<std::string> names;
  for (const ExperimentSetting& setting : settings) names.push_back(setting.name);
  return names;
}

std::string PathName(absl::string_view name) {
  constexpr size_t kMost = 32;  // so that a run's id keeps within its 64 characters
  std::string path;
  for (const char c : name) {
    if (path.size() == kMost) break;
    if (absl::ascii_isalnum(static_cast<unsigned char>(c))) {
      path.push_back(absl::ascii_tolower(static_cast<unsigned char>(c)));
    } else if (!path.empty() && path.back() != '-') {
      path.push_back('-');
    }
  }
  while (!path.empty() && path.back() == '-') path.pop_back();
  return path.empty() ? "setting" : path;
}

}  // namespace atolld
