// The record of what the runs in an experiment's folder were begun with: the setting, seed and
// config of each run, and the digests of the data. With it, a change of the experiment's file that
// contradicts a begun run is distinguished from an addition.
//
// Law: a run that has begun continues only with the config and the data with which it began.
// Everything else in the file may change: comments, seeds, settings, values of the grid, the
// target, and their order. A run keeps its id even if other runs are added before it in the file.
//
//   DIR/record.json      {"runs": {ID: {"setting", "seed", "plan"}}, "data": {PATH: {FILE: ...}}}
//
// The functions block.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/env/env.h"
#include "daemon/experiment/experiment.h"
#include "daemon/experiment/run_plan.h"

namespace atolld {

// The recorded state of a data file. A file whose size and time have not changed is not read again.
struct FileStamp {
  uint64_t bytes = 0;
  int64_t modified = 0;  // the time of the last change, in nanoseconds
  std::string digest;    // SHA-256, hex
};
// The stamps of a data source. For a file, its stamp under the key "". For a folder, the stamps of
// all files in it except hidden ones, by their paths in the folder.
using SourceStamp = std::map<std::string, FileStamp>;

struct RunRecord {
  std::string setting;
  uint64_t seed = 0;
  std::string plan;  // the text that PlanText returned
};

struct ExperimentRecord {
  std::map<std::string, RunRecord> runs;    // the runs by id
  std::map<std::string, SourceStamp> data;  // the stamps by the source's absolute path
};

// Returns an empty record if the folder has none. Fails with DATA_LOSS if it cannot be read.
absl::StatusOr<ExperimentRecord> ReadRecord(Files& files, const std::string& dir);
absl::Status WriteRecord(Files& files, const std::string& dir, const ExperimentRecord& record);

// Returns the ids of the recorded runs by setting and seed, for Experiment::begun.
std::map<std::pair<std::string, uint64_t>, std::string> IdsOf(const ExperimentRecord& record);

// Returns everything that defines a run except its id, with one line for each value: its config,
// the parties that take part, their partition and their lines. Runs with the same text are the same
// run.
std::string PlanText(const Experiment& experiment, const RunPlan& plan);

// Returns true if the run with this id is finished, or has left folders of processes from which it
// can continue.
bool HasBegun(Files& files, const std::string& dir, const std::string& id);

// Records these plans. Fails with FAILED_PRECONDITION if a run has begun and its PlanText differs
// now; the message names the first line that differs.
absl::Status TakeRuns(Files& files, const std::string& dir, const Experiment& experiment,
                      const std::vector<RunPlan>& plans, ExperimentRecord* record);

// Reads the data of all parties of these plans, and records their stamps. Fails with
// FAILED_PRECONDITION if a run has begun and a file has changed, is new, or is missing; the message
// names the file and the run. Fails with the error of the disk, such as NOT_FOUND, if the data
// cannot be read.
absl::Status TakeData(Files& files, const std::string& dir, const std::vector<RunPlan>& plans,
                      ExperimentRecord* record);

}  // namespace atolld
