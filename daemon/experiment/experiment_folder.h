// The folder of an experiment: its contents, and the check that it belongs to this experiment.
//
//   DIR/experiment.toml     the experiment's file, as it was when last continued
//   DIR/record.json         the runs and the data with which it was begun (experiment_record.h)
//   DIR/experiment.json     the name of the experiment, and the name of its file
//   DIR/parties/N/          the files of a partition, described by DIR/parties/N.json
//   DIR/runs/ID.toml        the config of a run
//   DIR/runs/ID.log         the output of its `atoll local`
//   DIR/runs/ID.json        its report
//   DIR/runs/ID/            the run itself, a folder of `atoll local`
//   DIR/compose/            for runs in containers: their compose files and configs
//   DIR/results.jsonl       one line for each finished run (run_result.h)
//   DIR/report.html         the report
//   DIR/lock                held by the process that works on the experiment
//
// A folder that holds anything else is never touched. The functions block.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "daemon/env/env.h"
#include "daemon/experiment/experiment.h"
#include "daemon/experiment/run_result.h"

namespace atolld {

inline constexpr char kExperimentCopy[] = "experiment.toml";
inline constexpr char kExperimentNames[] = "experiment.json";
inline constexpr char kRecordFile[] = "record.json";
inline constexpr char kResultsFile[] = "results.jsonl";
inline constexpr char kReportFile[] = "report.html";

struct RunPaths {
  std::string config, log, report, dir;
};
RunPaths PathsOf(const std::string& dir, const std::string& run_id);

// Fails with ALREADY_EXISTS if `dir` exists and is not empty and not the folder of an experiment.
// Makes nothing.
absl::Status CheckExperimentFolder(Files& files, const std::string& dir);

// Makes `dir` for this experiment, unless it is already the folder of one. If `fresh` is true,
// first removes what an earlier experiment has left in it. If the folder has a record, the record
// decides later whether a changed file may continue in it (see TakeRuns). If it has none, because
// an earlier release made it, fails with FAILED_PRECONDITION if the experiment's file has changed;
// the message names the first line that differs.
absl::Status OpenExperimentFolder(Files& files, const std::string& dir,
                                  const Experiment& experiment, bool fresh);

// Stores the experiment's file and its name in the folder, in place of those stored before.
absl::Status KeepExperiment(Files& files, const std::string& dir, const Experiment& experiment);

// Returns the experiment in the stored file. Fails with NOT_FOUND if the folder holds no such file.
absl::StatusOr<Experiment> ExperimentOfFolder(Files& files, const std::string& dir);

// Returns the first line that differs between the two texts, such as "line 12: `a` there, `b`
// here", or an empty text if they are equal.
std::string FirstDifference(absl::string_view there, absl::string_view here);

// Returns the results that were written so far. It is not an error if there are none yet.
absl::StatusOr<std::vector<RunResult>> ReadResults(Files& files, const std::string& dir);

}  // namespace atolld
