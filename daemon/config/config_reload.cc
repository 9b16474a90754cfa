#include "daemon/config/config_reload.h"

#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/config/config_table.h"

namespace atolld {
namespace {

std::vector<std::string> ValuesOf(Config config) {
  std::vector<std::string> values;
  for (const ConfigField& field : ConfigFields(config)) values.push_back(FormatValue(field.value));
  return values;
}

}  // namespace

ConfigReload::ConfigReload(Executor& executor, Log& log, std::string file, ConfigUse use,
                           const Config& running)
    : executor_(executor),
      log_(log),
      file_(std::move(file)),
      use_(use),
      values_(ValuesOf(running)) {}

void ConfigReload::On(const std::string& name, Take take, NamesFiles names_files) {
  takers_[name] = Taker{std::move(take), std::move(names_files)};
}

void ConfigReload::Reload() {
  if (reading_) {
    again_ = true;
    return;
  }
  reading_ = true;
  auto read = std::make_shared<std::optional<absl::StatusOr<Config>>>();
  executor_.Offload([read, file = file_, use = use_] { read->emplace(LoadConfig(file, use)); },
                    guard_.Wrap([this, read] { OnRead(*std::move(*read)); }));
}

void ConfigReload::OnRead(absl::StatusOr<Config> config) {
  reading_ = false;
  if (config.ok()) {
    Apply(*std::move(config));
  } else {
    log_.Error(
        absl::StrCat("the config was read again, and nothing has changed, since it is not "
                     "valid: ",
                     config.status().message()));
  }
  if (!std::exchange(again_, false)) return;
  Reload();
}

std::map<std::string, ConfigReload::Taker>::iterator ConfigReload::TakerOf(
    const std::string& section, const std::string& name) {
  const auto of_key = takers_.find(name);
  return of_key != takers_.end() ? of_key : takers_.find(absl::StrCat("[", section, "]"));
}

void ConfigReload::Apply(Config config) {
  std::map<std::string, std::vector<Change>> taken;  // by the name that somebody has taken it under
  for (const auto& [name, taker] : takers_) {
    if (taker.names_files && taker.names_files(config)) taken[name];
  }
  std::vector<std::string> left;
  size_t place = 0;
  for (const ConfigField& field : ConfigFields(config)) {
    Change change{field.Name(), FormatValue(field.value), place++};
    if (change.value == values_[change.place]) continue;
    const auto taker = TakerOf(field.section, change.name);
    if (taker == takers_.end() || !taker->second.take) {
      left.push_back(change.name);
    } else {
      taken[taker->first].push_back(std::move(change));
    }
  }
  const std::string read = absl::StrCat(file_, " was read again: ");
  for (const auto& [name, changes] : taken) {
    const absl::Status status = takers_.at(name).take(config);
    if (!status.ok()) {
      log_.Error(absl::StrCat(read, name, " stays as it was: ", status.message()));
      continue;
    }
    if (changes.empty()) log_.Info(absl::StrCat(read, "the files of ", name, " were, too"));
    for (const Change& change : changes) {
      log_.Info(absl::StrCat(read, change.name, " is ", change.value, " now"));
      values_[change.place] = change.value;
    }
  }
  if (!left.empty()) {
    log_.Warning(absl::StrCat(read, absl::StrJoin(left, ", "),
                              left.size() == 1 ? " has changed" : " have changed",
                              ", which takes effect at the next start"));
  } else if (taken.empty()) {
    log_.Info(absl::StrCat(read, "nothing has changed"));
  }
}

}  // namespace atolld
