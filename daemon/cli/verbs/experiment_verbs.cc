// `atoll experiment partition` and `atoll experiment availability`: show which party gets what data
// and when a party is available, without running anything.
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "compression/base/terminal.h"
#include "compression/base/words.h"
#include "daemon/cli/output.h"
#include "daemon/cli/partition_text.h"
#include "daemon/cli/verbs/verbs.h"
#include "daemon/env/posix_files.h"
#include "daemon/experiment/partition/daily_pattern.h"
#include "daemon/experiment/partition/partition_folder.h"
#include "daemon/experiment/partition/partition_picture.h"

namespace atolld {
namespace {

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

}  // namespace

void AddExperimentVerbs(CommandLine& command_line) {
  AddPartitionVerb(command_line);
  AddAvailabilityVerb(command_line);
}

}  // namespace atolld
