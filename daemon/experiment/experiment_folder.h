// The folder of an experiment: what is in it, and whether it is of this experiment.
//
//   DIR/experiment.toml     the file that it was begun with
//   DIR/experiment.json     its name, and the file's
//   DIR/parties/N/          what a partition has made: DIR/parties/N.json tells of it
//   DIR/runs/ID.toml        a run's config; ID.log: what `atoll local` said; ID.json: its report
//   DIR/runs/ID/            the run itself, a folder of `atoll local`
//   DIR/compose/            of runs in containers: their compose files and configs
//   DIR/results.jsonl       a line a finished run (run_result.h)
//   DIR/report.html         the report
//   DIR/lock                who works on it
//
// A folder that holds anything else is never touched. Blocking.
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
inline constexpr char kResultsFile[] = "results.jsonl";
inline constexpr char kReportFile[] = "report.html";

struct RunPaths {
  std::string config, log, report, dir;
};
RunPaths PathsOf(const std::string& dir, const std::string& run_id);

// ALREADY_EXISTS: `dir` is there and holds something that is no experiment. Makes nothing.
absl::Status CheckExperimentFolder(Files& files, const std::string& dir);

// Makes `dir` for this experiment, or finds that it is one's already. `fresh`: what an
// earlier experiment has left there is taken away first. FAILED_PRECONDITION: an experiment
// of another text, and the first line that differs.
absl::Status OpenExperimentFolder(Files& files, const std::string& dir,
                                  const Experiment& experiment, bool fresh);

// The experiment that the folder was made for, as its file was. NOT_FOUND: it holds none.
absl::StatusOr<Experiment> ExperimentOfFolder(Files& files, const std::string& dir);

// "line 12: `a` there, `b` here"; empty: they are the same.
std::string FirstDifference(absl::string_view there, absl::string_view here);

// The results that were written; none yet is no error.
absl::StatusOr<std::vector<RunResult>> ReadResults(Files& files, const std::string& dir);

}  // namespace atolld
