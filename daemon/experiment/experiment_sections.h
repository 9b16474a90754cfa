// The keys that an experiment's file has beside a run's: which there are, what they take, and how
// they are read.
//
// Pure functions, any thread; a field borrows what it was made for.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "daemon/config/config_value.h"
#include "daemon/experiment/experiment.h"

namespace atolld {

struct ExperimentField {
  std::string section;
  std::string key;
  FieldValue value;
};

// Of [experiment], without name and seeds, and whether settings may change them.
std::vector<ExperimentField> FileFields(Experiment& experiment);   // no setting may
std::vector<ExperimentField> SettingFields(ExperimentKeys& keys);  // settings may
std::vector<ExperimentField> LinkFields(LinkKeys& link);           // of a line of [links]

// The sections that only an experiment has.
const std::vector<std::string>& ExperimentSections();

// INVALID_ARGUMENT with the change's place: there is no such key, or it is none that a setting may
// change, and what is instead. The value is not looked at.
absl::Status CheckChange(const SettingChange& change);

// Gives the field that the change names its value. INVALID_ARGUMENT with the change's place: there
// is none, and which is nearest, or it does not take the value.
absl::Status AssignField(const std::vector<ExperimentField>& fields, const SettingChange& change);

}  // namespace atolld
