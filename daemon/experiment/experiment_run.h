// `atoll experiment run` and `atoll experiment report`: an experiment from its file to its report.
//
// The folder that it works in holds all that it needs to go on: started again with the same file
// and folder, it skips the runs that are finished and goes on with the others, however it ended. It
// leaves nothing running.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compression/base/process_limits.h"
#include "daemon/experiment/run_plan.h"

namespace atolld {

struct ExperimentRunOptions {
  std::string file;
  std::string dir;    // empty: ./NAME-experiment
  std::string place;  // "local", "lab", "compose"; empty: as the file says
  uint32_t jobs = 0;  // at once; 0: as the file says
  bool fresh = false;
  bool json = false;
};

// Returns the exit code: 0 all runs are finished, 1 some are not, 2 the call or the file is wrong.
// Once a process.
int RunExperiment(const ExperimentRunOptions& options);

struct ExperimentReportOptions {
  std::string source;  // the file, whose folder is ./NAME-experiment, or the folder
  std::string out;     // empty: report.html in the folder
  bool json = false;
};
int ReportOnExperiment(const ExperimentReportOptions& options);

// How many of these runs fit a machine at once, at least 1: by the threads that the peers of the
// largest one have, and by their memory.
size_t RunsAtOnce(const std::vector<RunPlan>& plans, const ProcessLimits& limits);

// "dirichlet-experiment" in the working directory, absolute.
std::string DefaultExperimentFolder(const std::string& name);

}  // namespace atolld
