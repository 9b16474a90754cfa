#include "daemon/experiment/run_plan.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compression/base/status_macros.h"
#include "daemon/cli/local/local_plan.h"
#include "daemon/config/worker_program.h"
#include "daemon/experiment/experiment_sections.h"

namespace atolld {
namespace {

bool IsOwnSection(const std::string& section) {
  return section == "experiment" || section == "faults";
}

// Returns the keys of this setting, with the place of each that a user may have to correct.
absl::StatusOr<ExperimentKeys> KeysOf(const Experiment& experiment,
                                      const ExperimentSetting& setting) {
  ExperimentKeys keys = experiment.keys;
  for (const SettingChange& change : setting.changes) {
    if (!IsOwnSection(change.section)) continue;
    RETURN_IF_ERROR(AssignField(SettingFields(keys), change));
  }
  return keys;
}

// Returns the place at which the setting, or the file, gives a key.
std::string PlaceOfKey(const Experiment& experiment, const ExperimentSetting& setting,
                       const std::string& name) {
  for (const SettingChange& change : setting.changes) {
    if (change.Name() == name) return change.place;
  }
  return absl::StrCat(experiment.path, ": [experiment]");
}

absl::StatusOr<PartitionSettings> PartitionOf(const Experiment& experiment,
                                              const ExperimentSetting& setting,
                                              const ExperimentKeys& keys, uint64_t seed) {
  PartitionSections sections;
  sections.folder = experiment.folder;
  const std::string& place = experiment.partition_place;
  sections.partition.place = sections.data.place = sections.experiment.place = place;
  const auto take = [&sections](const SettingChange& change) {
    if (change.section == "partition") {
      sections.partition.values[change.key] = {change.value, change.place};
    } else if (change.key == "path" || change.key == "kind" || change.key == "field") {
      sections.data.values[change.key] = {change.value, change.place};
    }
  };
  for (const SettingChange& change : experiment.data) take(change);
  for (const SettingChange& change : experiment.partition) take(change);
  for (const SettingChange& change : setting.changes) {
    if (change.section == "data" || change.section == "partition") take(change);
  }
  sections.experiment.values["name"] = {experiment.name, place};
  sections.experiment.values["seed"] = {static_cast<int64_t>(seed), place};
  const auto own = sections.partition.values.find("parties");
  if (own != sections.partition.values.end() && keys.parties != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        own->second.place, ": [experiment] parties says how many there are; leave this one out"));
  }
  if (keys.parties != 0) {
    sections.partition.values["parties"] = {static_cast<int64_t>(keys.parties), place};
  }
  return ParsePartition(sections);
}

// The peers of one run, and the location of their data.
class Placement {
 public:
  Placement(const Experiment& experiment, const ExperimentSetting& setting, const RunPlan& plan,
            const std::optional<PartyData>& data)
      : experiment_(experiment), setting_(setting), plan_(plan), data_(data) {
    parties_ = plan.partition ? plan.partition->parties : plan.keys.parties;
    if (data && data->parties != 0) parties_ = data->parties;
  }

  absl::StatusOr<std::vector<ConfigOverride>> Overrides() {
    RETURN_IF_ERROR(PlacePeers());
    if (plan_.partition) Set("data", "private", true);
    if (data_) {
      Set("data", "path", data_->path);
      if (!data_->validation.empty()) Set("data", "validation", data_->validation);
    }
    return std::move(overrides_);
  }

 private:
  absl::Status Wrong(const char* key, absl::string_view what) const {
    return absl::InvalidArgumentError(
        absl::StrCat(PlaceOfKey(experiment_, setting_, key), ": ", what));
  }

  void Set(const char* section, const char* key, const RawValue& value) {
    const std::string name = absl::StrCat(section, ".", key);
    overrides_.push_back({PlaceOfKey(experiment_, setting_, name), section, key, value});
  }

  absl::Status PlacePeers() {
    const ExperimentKeys& keys = plan_.keys;
    const absl::StatusOr<std::vector<RampStep>> ramp = ParseRamp(keys.ramp);
    if (!ramp.ok()) return Wrong("experiment.ramp", ramp.status().message());
    if (keys.hosts != 0) {
      if (!ramp->empty()) {
        return Wrong("experiment.ramp",
                     "a ramp needs peers that are parties themselves; leave out hosts");
      }
      if (parties_ == 0) return Wrong("experiment.hosts", "hosts need parties: say how many");
      if (parties_ % keys.hosts != 0) {
        return Wrong("experiment.hosts",
                     absl::StrCat("hosts must divide the ", parties_, " parties, and ", keys.hosts,
                                  " does not: each hosts the same number"));
      }
      Set("parties", "hosted", int64_t{parties_ / keys.hosts});
      Set("run", "peers", int64_t{keys.hosts});
      return absl::OkStatus();
    }
    if (parties_ == 0) return absl::OkStatus();  // as [run] peers says
    if (plan_.partition && MostPeers(*ramp, 0) > parties_) {
      return Wrong("experiment.ramp",
                   absl::StrCat("the ramp has ", MostPeers(*ramp, 0),
                                " peers, and the data is dealt to ", parties_, " parties"));
    }
    Set("run", "peers", int64_t{PeersAt(*ramp, 0, parties_)});
    return absl::OkStatus();
  }

  const Experiment& experiment_;
  const ExperimentSetting& setting_;
  const RunPlan& plan_;
  const std::optional<PartyData>& data_;
  uint32_t parties_ = 0;
  std::vector<ConfigOverride> overrides_;
};

// Returns the id that the run has in the experiment's folder; for a new run, one that no other has
// there.
std::string IdOf(const Experiment& experiment, size_t index, uint64_t seed) {
  const std::string& setting = experiment.settings[index].name;
  const auto known = experiment.begun.find({setting, seed});
  if (known != experiment.begun.end()) return known->second;
  for (size_t number = index + 1;; number += experiment.settings.size()) {
    std::string id = absl::StrFormat("%02d-%s-seed-%d", number, PathName(setting), seed);
    const bool taken = std::any_of(experiment.begun.begin(), experiment.begun.end(),
                                   [&id](const auto& run) { return run.second == id; });
    if (!taken) return id;
  }
}

absl::Status CheckSpeeds(const Experiment& experiment, const ExperimentSetting& setting,
                         const RunPlan& plan) {
  const auto wrong = [&](absl::string_view what) {
    return absl::InvalidArgumentError(
        absl::StrCat(PlaceOfKey(experiment, setting, "experiment.speeds"), ": ", what));
  };
  const absl::StatusOr<std::vector<double>> speeds = ParseSpeeds(plan.keys.speeds);
  if (!speeds.ok()) return wrong(speeds.status().message());
  if (speeds->empty() || CanBeSlower(plan.config.model.kind)) return absl::OkStatus();
  return wrong(absl::StrCat("speeds are for atoll-worker and the stub, and a model of kind '",
                            plan.config.model.kind, "' has another worker"));
}

}  // namespace

uint32_t MostPeersOf(const RunPlan& plan) {
  const absl::StatusOr<std::vector<RampStep>> ramp = ParseRamp(plan.keys.ramp);
  return ramp.ok() ? MostPeers(*ramp, plan.config.run.peers) : plan.config.run.peers;
}

absl::StatusOr<RunPlan> PlanRun(const Experiment& experiment, size_t index, uint64_t seed,
                                const std::optional<PartyData>& data) {
  const ExperimentSetting& setting = experiment.settings[index];
  RunPlan plan;
  plan.setting = index;
  plan.seed = seed;
  plan.id = IdOf(experiment, index, seed);
  ASSIGN_OR_RETURN(plan.keys, KeysOf(experiment, setting));
  if (experiment.has_partition()) {
    ASSIGN_OR_RETURN(plan.partition, PartitionOf(experiment, setting, plan.keys, seed));
  }
  std::vector<ConfigOverride> overrides;
  for (const SettingChange& change : setting.changes) {
    if (IsOwnSection(change.section) || change.section == "partition") continue;
    overrides.push_back({change.place, change.section, change.key, change.value});
  }
  const std::string whole = absl::StrCat(experiment.path, ": ", plan.id);
  overrides.push_back({whole, "run", "seed", static_cast<int64_t>(seed)});
  overrides.push_back({whole, "run", "id", plan.id});
  ASSIGN_OR_RETURN(const std::vector<ConfigOverride> placed,
                   Placement(experiment, setting, plan, data).Overrides());
  overrides.insert(overrides.end(), placed.begin(), placed.end());
  ASSIGN_OR_RETURN(plan.config, ParseConfig(experiment.run_text, experiment.path, experiment.folder,
                                            ConfigUse::kLocal, overrides));
  RETURN_IF_ERROR(CheckSpeeds(experiment, setting, plan));
  if (plan.keys.hosts != 0 && plan.config.parties.first != 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        experiment.path, ": [parties] first is ", plan.config.parties.first,
        ", and with [experiment] hosts the parties are numbered through, from 1 on; leave it out"));
  }
  return plan;
}

}  // namespace atolld
