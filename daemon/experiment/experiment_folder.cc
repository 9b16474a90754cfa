#include "daemon/experiment/experiment_folder.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "compression/base/names.h"
#include "compression/base/status_macros.h"
#include "daemon/env/posix_folder_lock.h"
#include "daemon/experiment/experiment_file.h"
#include "daemon/figures/status_json.h"

namespace atolld {
namespace {

constexpr uint64_t kMostText = 2 << 20;               // of an experiment's file
constexpr uint64_t kMostResults = uint64_t{1} << 30;  // a version of a run has some 200 bytes
constexpr size_t kMostLineShown = 60;

// Everything that an experiment makes in its folder.
constexpr absl::string_view kOwnNames[] = {kExperimentCopy, kExperimentNames, kRecordFile,
                                           "parties",       "runs",           kResultsFile,
                                           kReportFile,     "compose"};

std::string Quoted(absl::string_view line) {
  return absl::StrCat("`", OneLine(line, kMostLineShown), "`");
}

absl::Status TakeAwayOld(const std::string& dir) {
  for (const absl::string_view name : kOwnNames) {
    std::error_code error;
    std::filesystem::remove_all(absl::StrCat(dir, "/", name), error);
    if (error) {
      return absl::UnknownError(
          absl::StrCat(dir, "/", name, " cannot be taken away: ", error.message()));
    }
  }
  return absl::OkStatus();
}

}  // namespace

RunPaths PathsOf(const std::string& dir, const std::string& run_id) {
  const std::string base = absl::StrCat(dir, "/runs/", run_id);
  return {base + ".toml", base + ".log", base + ".json", base};
}

std::string FirstDifference(absl::string_view there, absl::string_view here) {
  const std::vector<absl::string_view> old_lines = absl::StrSplit(there, '\n');
  const std::vector<absl::string_view> new_lines = absl::StrSplit(here, '\n');
  const size_t most = std::max(old_lines.size(), new_lines.size());
  for (size_t i = 0; i < most; ++i) {
    const bool both = i < old_lines.size() && i < new_lines.size();
    if (both && old_lines[i] == new_lines[i]) continue;
    return absl::StrCat("line ", i + 1, ": ",
                        i < old_lines.size() ? Quoted(old_lines[i]) : "nothing", " there, ",
                        i < new_lines.size() ? Quoted(new_lines[i]) : "nothing", " here");
  }
  return "";
}

absl::Status CheckExperimentFolder(Files& files, const std::string& dir) {
  if (!files.Exists(dir) || files.Exists(absl::StrCat(dir, "/", kExperimentCopy))) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> names, files.List(dir));
  for (const std::string& name : names) {
    if (name == kLockFile || name == kExperimentNames || name == "runs") continue;
    return absl::AlreadyExistsError(absl::StrCat(dir, " is not an experiment's folder: it holds ",
                                                 name, "; give another --dir"));
  }
  return absl::OkStatus();
}

absl::Status OpenExperimentFolder(Files& files, const std::string& dir,
                                  const Experiment& experiment, bool fresh) {
  const std::string copy = absl::StrCat(dir, "/", kExperimentCopy);
  RETURN_IF_ERROR(CheckExperimentFolder(files, dir));
  if (files.Exists(copy) && fresh) RETURN_IF_ERROR(TakeAwayOld(dir));
  if (files.Exists(copy) && files.Exists(absl::StrCat(dir, "/", kRecordFile))) {
    return absl::OkStatus();
  }
  if (files.Exists(copy)) {
    ASSIGN_OR_RETURN(const std::string there, ReadFile(files, copy, kMostText));
    const std::string difference = FirstDifference(there, experiment.text);
    if (difference.empty()) return absl::OkStatus();
    return absl::FailedPreconditionError(
        absl::StrCat(dir, " was begun with another file: ", difference,
                     "; give --fresh to begin anew there, or another --dir"));
  }
  RETURN_IF_ERROR(files.MakeDirectories(dir + "/runs"));
  return KeepExperiment(files, dir, experiment);
}

absl::Status KeepExperiment(Files& files, const std::string& dir, const Experiment& experiment) {
  const nlohmann::ordered_json names = {{"name", experiment.name}, {"file", experiment.path}};
  RETURN_IF_ERROR(
      WriteFileDurably(files, absl::StrCat(dir, "/", kExperimentNames), BytesOf(JsonText(names))));
  return WriteFileDurably(files, absl::StrCat(dir, "/", kExperimentCopy), BytesOf(experiment.text));
}

absl::StatusOr<Experiment> ExperimentOfFolder(Files& files, const std::string& dir) {
  const std::string copy = absl::StrCat(dir, "/", kExperimentCopy);
  if (!files.Exists(copy)) {
    return absl::NotFoundError(
        absl::StrCat(dir, " holds no experiment; `atoll experiment run FILE` makes one"));
  }
  ASSIGN_OR_RETURN(const std::string text, ReadFile(files, copy, kMostText));
  ASSIGN_OR_RETURN(Experiment experiment, ParseExperiment(text, copy, dir));
  ASSIGN_OR_RETURN(const std::string names,
                   ReadFile(files, absl::StrCat(dir, "/", kExperimentNames), kMostText));
  const nlohmann::json json = nlohmann::json::parse(names, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("name") || !json["name"].is_string() ||
      !json.contains("file") || !json["file"].is_string()) {
    return absl::DataLossError(absl::StrCat(dir, "/", kExperimentNames, " is damaged"));
  }
  experiment.name = json["name"].get<std::string>();
  experiment.path = json["file"].get<std::string>();
  return experiment;
}

absl::StatusOr<std::vector<RunResult>> ReadResults(Files& files, const std::string& dir) {
  const std::string path = absl::StrCat(dir, "/", kResultsFile);
  std::vector<RunResult> results;
  if (!files.Exists(path)) return results;
  ASSIGN_OR_RETURN(const std::string text, ReadFile(files, path, kMostResults));
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    absl::StatusOr<RunResult> result = ParseResultLine(line);
    if (!result.ok()) return Annotate(result.status(), path);
    results.push_back(*std::move(result));
  }
  return results;
}

}  // namespace atolld
