// `atoll experiment run` and `atoll experiment report`: from one file to a report.
#include <memory>

#include "daemon/cli/verbs/verbs.h"
#include "daemon/experiment/experiment_run.h"

namespace atolld {
namespace {

constexpr uint32_t kMostRunsAtOnce = 1024;

void AddExperimentRun(CommandLine& command_line) {
  const auto options = std::make_shared<ExperimentRunOptions>();
  const Verb verb = command_line.AddVerb(
      "experiment run",
      "Run every setting of an experiment with every seed\n"
      "Started again with the same file and folder it goes on where it was. It ends with a table "
      "and a report.",
      "atoll experiment run configs/experiments/dirichlet.toml",
      [options] { return RunExperiment(*options); });
  verb.Add("FILE", options->file, "The experiment, a TOML file").File().Required();
  verb.Add("--dir", options->dir, "New, or an experiment's to go on [./NAME-experiment]")
      .Folder()
      .NotEmpty();
  verb.Add("--in", options->place,
           "Where the runs are: this machine, its lab with [links], or containers [as the file "
           "says]")
      .OneOf({"local", "lab", "compose"});
  verb.Add("--jobs", options->jobs, "Runs at once; 0: as the file says, or as many as fit")
      .Range(uint32_t{0}, kMostRunsAtOnce);
  verb.Flag("--fresh", options->fresh, "Take away what the folder holds, and begin anew");
  verb.Flag("--json", options->json, "Print the table as JSON");
}

void AddExperimentReport(CommandLine& command_line) {
  const auto options = std::make_shared<ExperimentReportOptions>();
  const Verb verb = command_line.AddVerb(
      "experiment report", "Write an experiment's report, as far as it has come",
      "atoll experiment report configs/experiments/dirichlet.toml --out dirichlet.html",
      [options] { return ReportOnExperiment(*options); });
  verb.Add("SOURCE", options->source, "The experiment's file, or its folder").Path().Required();
  verb.Add("--out", options->out, "The HTML file to write [report.html in the folder]")
      .File()
      .NotEmpty();
  verb.Flag("--json", options->json, "Print the table as JSON");
}

}  // namespace

void AddExperimentRunVerbs(CommandLine& command_line) {
  AddExperimentRun(command_line);
  AddExperimentReport(command_line);
}

}  // namespace atolld
