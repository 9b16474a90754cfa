// `atoll config`: checks config files, and prints them with the comments of the table of keys.
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compression/base/process_limits.h"
#include "compression/base/status_macros.h"
#include "compression/base/terminal.h"
#include "daemon/cli/beforehand.h"
#include "daemon/cli/output.h"
#include "daemon/cli/plan_report.h"
#include "daemon/cli/verbs/verbs.h"
#include "daemon/cli/worker_tool.h"
#include "daemon/config/config.h"
#include "daemon/config/config_defaults.h"
#include "daemon/config/config_rules.h"
#include "daemon/config/config_text.h"
#include "daemon/config/data_config.h"
#include "daemon/config/data_on_disk.h"
#include "daemon/env/posix_files.h"
#include "daemon/program/addresses.h"
#include "daemon/replica/state/branch_file.h"
#include "optimizer/outer_advice.h"

namespace atolld {
namespace {

// More than any config may have, so that a text that is cut off is refused by the parser.
constexpr size_t kReadAtMost = size_t{2} << 20;

// Reads a file or, for "-", standard input, whose relative paths start at the working directory.
absl::StatusOr<Config> ReadConfig(const std::string& file, ConfigUse use) {
  if (file != "-") return LoadConfig(file, use);
  std::string text(kReadAtMost, '\0');
  std::cin.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(std::cin.gcount()));
  std::error_code error;
  return ParseConfig(text, "standard input", std::filesystem::current_path(error).string(), use);
}

// Checks the file with which a run begins. Every use needs it, but a config for no particular use
// need not have it. The data may be on another machine.
absl::Status CheckNamedFiles(const Config& config) {
  const std::pair<const char*, const std::string&> files[] = {{"initial", config.model.initial},
                                                              {"base", config.model.base}};
  for (const auto& [key, path] : files) {
    std::error_code error;
    if (path.empty() || std::filesystem::is_regular_file(path, error)) continue;
    return absl::InvalidArgumentError(absl::StrCat("[model] ", key, " '", path,
                                                   "' does not exist on this machine; "
                                                   "`atoll import` makes one"));
  }
  if (config.run.branch.empty()) return absl::OkStatus();
  PosixFiles posix_files;
  const absl::Status branch = ReadBranchHead(posix_files, config.run.branch).status();
  if (branch.ok()) return branch;
  return absl::InvalidArgumentError(absl::StrCat("[run] branch: ", branch.message(),
                                                 "; `atoll run branch --out` makes such a file, "
                                                 "and a run whose version 0 was made needs none"));
}

// Checks the other things on this machine that can keep a worker from its start. `notes` receives
// what may keep it, and what could not be checked.
absl::Status CheckWorkersPart(Config config, ConfigUse use, std::vector<std::string>* notes) {
  if (use == ConfigUse::kCoordinator || config.peer.role == kAggregatorRoleName) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const std::vector<DataSource> sources, SourcesOf(config.data));
  std::error_code error;
  for (const DataSource& source : sources) {
    if (std::filesystem::exists(source.path, error)) continue;
    notes->push_back(absl::StrCat("data '", source.path, "' is not on this machine"));
    return absl::OkStatus();
  }
  for (const std::string& dir : {config.peer.dir, config.coordinator.dir}) {
    if (!dir.empty()) RETURN_IF_ERROR(CheckDataApart(config.data, dir));
  }
  // The place where `atoll local` makes a run's folder by default.
  const std::string here = std::filesystem::current_path(error).string() + "/atoll-run";
  const absl::Status apart = CheckDataApart(config.data, here);
  if (use == ConfigUse::kLocal && !apart.ok()) {
    notes->push_back(absl::StrCat(apart.message(), "; or say another --dir"));
  }
  RETURN_IF_ERROR(CheckDataSize(config));
  const uint32_t workers = use == ConfigUse::kLocal ? config.run.peers : 1;
  const absl::Status fits = CheckFits(config, workers, ReadProcessLimits().memory);
  if (use == ConfigUse::kLocal || use == ConfigUse::kPeer) RETURN_IF_ERROR(fits);
  if (use == ConfigUse::kLocal) RETURN_IF_ERROR(CheckTrainingFits(config));
  if (!fits.ok()) notes->push_back(std::string(fits.message()));
  const absl::StatusOr<std::string> worker = FindWorker("");
  if (!worker.ok()) {
    notes->push_back(
        absl::StrCat("data and devices were not looked at: ", worker.status().message()));
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(CheckDevices(*worker, config));
  return InspectData(*worker, &config, use).status();
}

// Returns advice on the outer step. The run belongs to its coordinator, so a peer's config, whose
// [outer] has no effect, gets none.
std::vector<OuterAdvice> AdviceOn(const Config& config, ConfigUse use) {
  if (use == ConfigUse::kPeer) return {};
  return AdviseOuterStep(OuterSettingOf(config));
}

struct ValidateOptions {
  std::string file;
  std::string use = "any";
  bool json = false;
};

VerbExit Validate(const ValidateOptions& options) {
  const std::map<std::string, ConfigUse> uses = {{"any", ConfigUse::kAny},
                                                 {"local", ConfigUse::kLocal},
                                                 {"coordinator", ConfigUse::kCoordinator},
                                                 {"peer", ConfigUse::kPeer}};
  const absl::StatusOr<Config> config = ReadConfig(options.file, uses.at(options.use));
  absl::Status status = config.status();
  if (status.ok()) status = CheckNamedFiles(*config);
  std::vector<std::string> notes;
  if (status.ok()) status = CheckWorkersPart(*config, uses.at(options.use), &notes);
  const std::string file = options.file == "-" ? "standard input" : options.file;
  std::vector<std::string> warnings;
  if (status.ok()) warnings = AddressWarnings(*config, uses.at(options.use));
  if (status.ok()) {
    for (const std::string& warning : {WarningOfOwners(*config), WarningOfPadding(*config)}) {
      if (!warning.empty()) warnings.push_back(warning);
    }
  }
  const std::vector<OuterAdvice> advice =
      status.ok() ? AdviceOn(*config, uses.at(options.use)) : std::vector<OuterAdvice>();
  if (options.json) {
    nlohmann::ordered_json json = {{"file", file},
                                   {"valid", status.ok()},
                                   {"warnings", warnings},
                                   {"advice", OuterAdviceJson(advice)}};
    if (!status.ok()) json["error"] = std::string(status.message());
    if (!notes.empty()) json["notes"] = notes;
    PrintJson(json);
  } else if (status.ok()) {
    PrintLine(stdout, absl::StrCat(file, " is valid"));
    for (const std::string& note : notes) PrintLine(stderr, absl::StrCat("note: ", note));
    std::fflush(stdout);
    for (const std::string& warning : warnings) {
      PrintLine(stderr, absl::StrCat(file, ": warning: ", warning));
    }
    for (const OuterAdvice& one : advice) {
      PrintLine(stderr, absl::StrCat(file, ": warning: ", DescribeOuterAdvice(one)));
    }
  }
  if (!status.ok() && !options.json) return status;
  return status.ok() ? kDone : kWrongCall;
}

struct PrintOptions {
  std::string file;
  bool defaults = false;
  bool markdown = false;
};

VerbExit PrintTable(const PrintOptions& options) {
  std::string text;
  if (options.markdown) {
    text = ConfigMarkdown();
  } else if (options.file.empty()) {
    text = PrintDefaultConfig();
  } else {
    ASSIGN_OR_RETURN(const Config config, ReadConfig(options.file, ConfigUse::kAny));
    text = PrintConfig(config);
  }
  std::fputs(text.c_str(), stdout);
  return kDone;
}

}  // namespace

void AddConfigVerbs(CommandLine& command_line) {
  const auto options = std::make_shared<ValidateOptions>();
  const Verb verb =
      command_line.AddVerb("config validate", "Check a config file, without running anything",
                           "atoll config validate configs/quickstart.toml --for local",
                           [options] { return Validate(*options); });
  verb.Add("FILE", options->file, "The TOML file; - for standard input").File().Required();
  verb.Add("--for", options->use, "What it will be used for: keys that this needs must be there")
      .OneOf({"any", "local", "coordinator", "peer"});
  verb.Flag("--json", options->json, "Print the result as JSON");

  const auto print = std::make_shared<PrintOptions>();
  const Verb print_verb = command_line.AddVerb("config print",
                                               "Print a complete config, with what each key means\n"
                                               "And when to change it.",
                                               "atoll config print --defaults >my-run.toml",
                                               [print] { return PrintTable(*print); });
  const Option file =
      print_verb
          .Add("FILE", print->file,
               "The TOML file to print, complete; - for standard input [the defaults]")
          .File();
  const Option defaults =
      print_verb.Flag("--defaults", print->defaults, "Print every key with its default");
  const Option markdown = print_verb.Flag("--markdown", print->markdown,
                                          "Print docs/config.md instead, a page about every key");
  defaults.Excludes(file);
  markdown.Excludes(file);
  markdown.Excludes(defaults);
}

}  // namespace atolld
