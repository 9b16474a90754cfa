// `atoll experiment ...`: runs an experiment and reports on it; shows which party gets what data
// and when a party is available, without running anything; and writes one for docker compose.
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compression/base/names.h"
#include "compression/base/status_macros.h"
#include "compression/base/terminal.h"
#include "compression/base/words.h"
#include "daemon/cli/output.h"
#include "daemon/cli/partition_text.h"
#include "daemon/cli/verbs/verbs.h"
#include "daemon/env/posix_files.h"
#include "daemon/experiment/compose_file.h"
#include "daemon/experiment/experiment_file.h"
#include "daemon/experiment/experiment_run.h"
#include "daemon/experiment/partition/daily_pattern.h"
#include "daemon/experiment/partition/partition_folder.h"
#include "daemon/experiment/partition/partition_picture.h"

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

// -----------------------------------------------------------------------------------------------

constexpr size_t kPartiesInTable = 60;
constexpr size_t kPartiesInJson = 100000;

struct PartitionOptions {
  std::string file;
  std::string out;
  std::string svg;
  bool json = false;
};

VerbExit ShowWhoGetsWhat(const PartitionOptions& options) {
  ASSIGN_OR_RETURN(const PartitionSettings settings, LoadPartition(options.file));
  PosixFiles files;
  ASSIGN_OR_RETURN(
      const PartitionReport report,
      options.out.empty()
          ? ShowPartition(files, settings)
          : WritePartition(files, settings, std::filesystem::absolute(options.out).string()));
  if (!options.svg.empty()) RETURN_IF_ERROR(WriteText(options.svg, PartitionSvg(report)));
  if (options.json) {
    PrintJson(PartitionJson(report, kPartiesInJson));
    return kDone;
  }
  std::vector<std::string> lines = PartitionText(report, kPartiesInTable);
  if (!report.folder.empty()) {
    lines.push_back(
        absl::StrCat(report.found ? "it is there already: " : "written: ", report.folder));
  }
  if (!options.svg.empty()) lines.push_back(absl::StrCat("picture: ", options.svg));
  PrintLines(lines);
  return kDone;
}

void AddPartitionVerb(CommandLine& command_line) {
  const auto options = std::make_shared<PartitionOptions>();
  const Verb verb =
      command_line.AddVerb("experiment partition",
                           "Show which party gets which data, without running anything\n"
                           "As [partition] of the file says. docs/experiments.md has the schemes.",
                           "atoll experiment partition configs/experiments/gcide_subjects.toml",
                           [options] { return ShowWhoGetsWhat(*options); });
  verb.Add("FILE", options->file, "The experiment, a TOML file").File().Required();
  verb.Add("--out", options->out, "Write each party's data into this folder").Folder();
  verb.Add("--svg", options->svg, "Draw a picture of it into this file").File();
  verb.Flag("--json", options->json, "Print as JSON");
}

// -----------------------------------------------------------------------------------------------

struct AvailabilityOptions {
  DailyPattern pattern;
  std::string kind = "daily";
  std::string out;
};

VerbExit WriteAvailability(const AvailabilityOptions& options) {
  const std::string out = options.out.empty() ? "-" : options.out;
  ASSIGN_OR_RETURN(const bool told, WriteResult(out, DailyTrace(options.pattern)));
  if (told) return kDone;
  PrintLine(stdout, absl::StrCat("written: ", options.out, ", ",
                                 Counted(options.pattern.parties, "party")));
  return kDone;
}

void AddAvailabilityVerb(CommandLine& command_line) {
  const auto options = std::make_shared<AvailabilityOptions>();
  DailyPattern& pattern = options->pattern;
  const Verb verb = command_line.AddVerb(
      "experiment availability",
      "Make a trace of when parties are there\n"
      "[availability] trace takes it. docs/experiments.md has its formulas.",
      "atoll experiment availability --parties 8 --pattern daily --seed 1 --out build/day.trace",
      [options] { return WriteAvailability(*options); });
  verb.Add("--parties", pattern.parties, "How many")
      .Range(uint32_t{1}, uint32_t{1000000})
      .Required();
  verb.Add("--pattern", options->kind, "Which: daily has nights in time zones").OneOf({"daily"});
  verb.Add("--seed", pattern.seed, "Another seed, another trace");
  verb.Add("--days", pattern.days, "How many days before it repeats")
      .Range(uint32_t{1}, uint32_t{366});
  verb.Add("--zones", pattern.zones, "Time zones that parties live in")
      .Range(uint32_t{1}, uint32_t{24});
  verb.Add("--sessions", pattern.sessions_a_day, "Sessions a party has in a day, in the mean")
      .Range(0.01, 100.0);
  verb.Add("--hours", pattern.median_hours, "Median length of a session").Range(0.01, 24.0);
  verb.Add("--out", options->out, "The file to write; - for standard output [-]").File();
}

// -----------------------------------------------------------------------------------------------

struct ComposeVerbOptions {
  std::string file;
  std::string setting;  // empty: the first
  uint64_t seed = 0;    // 0: the first
  std::string out = "docker-compose.yml";
  bool json = false;
};

absl::StatusOr<size_t> SettingNamed(const Experiment& experiment, const std::string& name) {
  if (name.empty()) return 0;
  std::vector<std::string> names;
  for (size_t i = 0; i < experiment.settings.size(); ++i) {
    if (experiment.settings[i].name == name) return i;
    names.push_back(experiment.settings[i].name);
  }
  return absl::InvalidArgumentError(
      absl::StrCat(experiment.path, " has no setting '", name, "'", Suggestion(name, names)));
}

VerbExit Compose(const ComposeVerbOptions& options) {
  // Compose tells YAML by the name.
  if (!absl::EndsWith(options.out, ".yml") && !absl::EndsWith(options.out, ".yaml")) {
    return absl::InvalidArgumentError(
        absl::StrCat("--out '", options.out, "': a name that ends in .yml or .yaml"));
  }
  ASSIGN_OR_RETURN(const Experiment experiment, ReadExperiment(options.file));
  ASSIGN_OR_RETURN(const size_t setting, SettingNamed(experiment, options.setting));
  const std::string& name = experiment.settings[setting].name;
  const uint64_t seed = options.seed != 0 ? options.seed : experiment.seeds.at(0);
  ASSIGN_OR_RETURN(const ComposeFiles files,
                   MakeCompose(experiment, setting, seed, ComposeFolder(options.out)));
  ASSIGN_OR_RETURN(const std::vector<std::string> written, WriteCompose(files, options.out));
  std::vector<std::string> lines = {
      absl::StrCat(name, ", seed ", seed, ": a coordinator and ", Counted(files.peers, "peer"))};
  lines.insert(lines.end(), written.begin(), written.end());
  lines.push_back(absl::StrCat("start it: docker compose -f ", options.out, " up"));
  return PrintAnswer(
      options.json, {{"setting", name}, {"seed", seed}, {"peers", files.peers}, {"files", written}},
      lines);
}

void AddComposeVerb(CommandLine& command_line) {
  const auto options = std::make_shared<ComposeVerbOptions>();
  const Verb verb = command_line.AddVerb(
      "experiment compose",
      "Write an experiment as a file for docker compose\n"
      "One setting with one seed: the compose file, and beside it a folder with its configs. The "
      "image is made by `docker compose build` in the source tree.",
      "atoll experiment compose configs/experiments/links.toml --out build/compose/links.yml",
      [options] { return Compose(*options); });
  verb.Add("FILE", options->file, "The experiment").Required().File();
  verb.Add("--setting", options->setting, "Which of its settings [the first]");
  verb.Add("--seed", options->seed, "Which seed [the first]");
  verb.Add("--out", options->out, "The file to write, which must be new").File();
  verb.Flag("--json", options->json, "Print as JSON");
}

}  // namespace

void AddExperimentVerbs(CommandLine& command_line) {
  AddExperimentRun(command_line);
  AddExperimentReport(command_line);
  AddPartitionVerb(command_line);
  AddAvailabilityVerb(command_line);
  AddComposeVerb(command_line);
}

}  // namespace atolld
