// `atoll experiment run` and `atoll experiment report`: execute an experiment, and write its
// report.
//
// The experiment's folder holds everything that is needed to continue. If `atoll experiment run` is
// called again with the same file and folder, it skips the finished runs and continues with the
// others, even after a crash. When it ends, it leaves no process running.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compression/base/process_limits.h"
#include "daemon/experiment/run_plan.h"
#include "daemon/program/command_line.h"

namespace atolld {

struct ExperimentRunOptions {
  std::string file;
  std::string dir;    // the experiment's folder; if empty, ./NAME-experiment
  std::string place;  // "local", "lab" or "compose"; if empty, as in the file
  uint32_t jobs = 0;  // the number of runs at once; 0 means as in the file
  bool fresh = false;
  bool json = false;
};

// Returns the exit code: 0 if all runs are finished, and 1 if some are not. Fails with an error if
// the call or the file is wrong. Blocks until then. Call it once in a process.
VerbExit RunExperiment(const ExperimentRunOptions& options);

struct ExperimentReportOptions {
  // The folder of an experiment, or its file, whose folder is ./NAME-experiment.
  std::string source;
  std::string out;  // the file to write; if empty, report.html in the folder
  bool json = false;
};
VerbExit ReportOnExperiment(const ExperimentReportOptions& options);

// Returns how many of these runs a machine can execute at once, at least 1. It depends on the
// threads and the memory that the peers of the largest run need.
size_t RunsAtOnce(const std::vector<RunPlan>& plans, const ProcessLimits& limits);

// Returns the absolute path of the folder NAME-experiment in the working directory.
std::string DefaultExperimentFolder(const std::string& name);

}  // namespace atolld
