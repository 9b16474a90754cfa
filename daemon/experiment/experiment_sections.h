// The keys that only an experiment's file has, besides those of a run's config: their names, their
// legal values, and how they are read.
//
// A field points into the object that it was made for, which must outlive it. Pure. May be called
// from any thread.
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

// FileFields returns the keys of [experiment] that no setting may change, except name and seeds.
// SettingFields returns the keys of [experiment] and [faults] that a setting may change. LinkFields
// returns the keys of a line of [links].
std::vector<ExperimentField> FileFields(Experiment& experiment);
std::vector<ExperimentField> SettingFields(ExperimentKeys& keys);
std::vector<ExperimentField> LinkFields(LinkKeys& link);

// Returns the names of the sections that only an experiment's file has.
const std::vector<std::string>& ExperimentSections();

// Fails with INVALID_ARGUMENT if the changed key does not exist or if a setting may not change it.
// The message begins with the place of the change and says what to use instead. Does not check the
// value.
absl::Status CheckChange(const SettingChange& change);

// Assigns the value of the change to the field that it names. Fails with INVALID_ARGUMENT if there
// is no such field or if the value is not legal. The message begins with the place of the change
// and, if there is no such field, gives the nearest name.
absl::Status AssignField(const std::vector<ExperimentField>& fields, const SettingChange& change);

}  // namespace atolld
