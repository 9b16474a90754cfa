#include "daemon/experiment/experiment_sections.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compression/base/names.h"
#include "daemon/config/config_table.h"

namespace atolld {
namespace {

constexpr uint64_t kMostParties = 1000000;
constexpr uint64_t kMostHosts = 1024;  // as [run] peers
constexpr uint64_t kMostJobs = 1024;
constexpr absl::Duration kLongest = absl::Hours(24 * 30);

FieldValue Span(absl::Duration* at, absl::Duration least) { return TimeSpan{at, least, kLongest}; }

// Keys of a run's config that belong to the experiment as a whole.
struct NotASettings {
  absl::string_view name;
  absl::string_view instead;
};
constexpr NotASettings kNotASettings[] = {
    {"run.id", "every run of an experiment gets an id of its own"},
    {"run.seed", "[experiment] seeds says it"},
    {"run.peers", "\"experiment.parties\" says it, or \"experiment.hosts\""},
    {"run.branch", "an experiment's runs begin anew"},
    {"parties.hosted", "\"experiment.hosts\" says who hosts them"},
    {"parties.first", "\"experiment.hosts\" says who hosts them"},
    {"experiment.name", "it is the experiment's"},
    {"experiment.seeds", "they are the experiment's"},
    {"experiment.jobs", "it is the experiment's"},
    {"experiment.in", "it is the experiment's"},
    {"experiment.target_loss", "it is the experiment's"},
};

absl::Status UnknownKey(const SettingChange& change, const std::vector<std::string>& keys) {
  return absl::InvalidArgumentError(absl::StrCat(change.place, ": unknown key '", change.key,
                                                 "' in [", change.section, "]",
                                                 Suggestion(change.key, keys)));
}

}  // namespace

std::vector<ExperimentField> FileFields(Experiment& experiment) {
  return {
      {"experiment", "jobs", WholeNumber{&experiment.jobs, 0, kMostJobs}},
      {"experiment", "in",
       Text{&experiment.place, TextForm::kOneOf, false, {"local", "lab", "compose"}}},
      {"experiment", "target_loss", RealNumber{&experiment.target_loss, 0, 1e6}},
  };
}

std::vector<ExperimentField> SettingFields(ExperimentKeys& keys) {
  FaultKeys& faults = keys.faults;
  return {
      {"experiment", "parties", WholeNumber{&keys.parties, 0, kMostParties}},
      {"experiment", "hosts", WholeNumber{&keys.hosts, 0, kMostHosts}},
      {"experiment", "ramp", Text{&keys.ramp, TextForm::kPlain, true}},
      {"experiment", "speeds", Text{&keys.speeds, TextForm::kPlain, true}},
      {"faults", "kill_every", Span(&faults.kill_every, absl::ZeroDuration())},
      {"faults", "pause_every", Span(&faults.pause_every, absl::ZeroDuration())},
      {"faults", "cut_every", Span(&faults.cut_every, absl::ZeroDuration())},
      {"faults", "down", Span(&faults.down, absl::Seconds(1))},
  };
}

std::vector<ExperimentField> LinkFields(LinkKeys& link) {
  return {
      {"links", "up", LineRate{&link.up}},
      {"links", "down", LineRate{&link.down}},
      {"links", "delay", TimeSpan{&link.delay, absl::ZeroDuration(), absl::Seconds(10)}},
      {"links", "loss", RealNumber{&link.loss, 0, 100}},
  };
}

const std::vector<std::string>& ExperimentSections() {
  static const auto* const sections = new std::vector<std::string>{
      "experiment", "partition", "grid", "setting", "links", "faults", "ramp"};
  return *sections;
}

absl::Status AssignField(const std::vector<ExperimentField>& fields, const SettingChange& change) {
  std::vector<std::string> keys;
  for (const ExperimentField& field : fields) {
    if (field.section != change.section) continue;
    keys.push_back(field.key);
    if (field.key != change.key) continue;
    const absl::Status status =
        Assign(field.value, absl::StrCat("[", change.section, "] ", change.key), change.value);
    return status.ok()
               ? status
               : absl::InvalidArgumentError(absl::StrCat(change.place, ": ", status.message()));
  }
  return UnknownKey(change, keys);
}

absl::Status CheckChange(const SettingChange& change) {
  for (const NotASettings& one : kNotASettings) {
    if (one.name != change.Name()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(change.place, ": a setting cannot change ", change.Name(), ": ", one.instead));
  }
  if (change.section == "partition") return absl::OkStatus();  // its own reader knows the keys
  Config config;
  ExperimentKeys own;
  std::vector<std::string> sections = {"partition"};
  std::vector<std::string> keys;
  const auto take = [&](const std::string& section, const std::string& key) {
    if (std::find(sections.begin(), sections.end(), section) == sections.end()) {
      sections.push_back(section);
    }
    if (section == change.section) keys.push_back(key);
  };
  for (const ExperimentField& field : SettingFields(own)) take(field.section, field.key);
  for (const ConfigField& field : ConfigFields(config)) take(field.section, field.key);
  if (keys.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(change.place, ": unknown section '",
                                                   change.section, "' in \"", change.Name(), "\"",
                                                   Suggestion(change.section, sections)));
  }
  if (std::find(keys.begin(), keys.end(), change.key) != keys.end()) return absl::OkStatus();
  return UnknownKey(change, keys);
}

}  // namespace atolld
