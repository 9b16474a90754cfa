#include "daemon/experiment/experiment_record.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "compression/base/names.h"
#include "compression/base/status_macros.h"
#include "daemon/cli/local_layout.h"
#include "daemon/config/config_sections.h"
#include "daemon/config/config_text.h"
#include "daemon/config/peer_path.h"
#include "daemon/experiment/experiment_folder.h"
#include "daemon/experiment/run_log.h"
#include "daemon/figures/status_json.h"

namespace atolld {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

constexpr uint64_t kMostRecord = uint64_t{1} << 30;
constexpr size_t kStampShown = 12;

absl::Status Damaged(const std::string& path) {
  return absl::DataLossError(absl::StrCat(path, " is damaged; --fresh begins anew"));
}

// Follows links, as training on the data does.
absl::StatusOr<FileStamp> StampFile(const std::string& path, const FileStamp* before) {
  std::error_code error;
  FileStamp stamp;
  stamp.bytes = fs::file_size(path, error);
  const fs::file_time_type modified = fs::last_write_time(path, error);
  if (error) return absl::NotFoundError(absl::StrCat(path, ": ", error.message()));
  stamp.modified =
      std::chrono::duration_cast<std::chrono::nanoseconds>(modified.time_since_epoch()).count();
  if (before != nullptr && before->bytes == stamp.bytes && before->modified == stamp.modified) {
    return *before;
  }
  ASSIGN_OR_RETURN(const std::string digest, DigestOfFile(path));
  stamp.digest = absl::BytesToHexString(digest);
  return stamp;
}

bool IsHidden(const fs::path& path) { return absl::StartsWith(path.filename().string(), "."); }

absl::StatusOr<SourceStamp> StampSource(const std::string& path, const SourceStamp& before) {
  const auto known = [&before](const std::string& name) {
    const auto found = before.find(name);
    return found == before.end() ? nullptr : &found->second;
  };
  SourceStamp stamp;
  std::error_code error;
  // A worker of the user's own may know another meaning of the path; who else needs it says so.
  if (!fs::exists(path, error)) return stamp;
  if (!fs::is_directory(path, error)) {
    ASSIGN_OR_RETURN(stamp[""], StampFile(path, known("")));
    return stamp;
  }
  fs::recursive_directory_iterator at(path, fs::directory_options::follow_directory_symlink, error);
  for (; !error && at != fs::recursive_directory_iterator(); at.increment(error)) {
    if (IsHidden(at->path())) {
      at.disable_recursion_pending();
    } else if (at->is_regular_file()) {
      const std::string name = fs::path(at->path()).lexically_relative(path).string();
      ASSIGN_OR_RETURN(stamp[name], StampFile(at->path().string(), known(name)));
    }
  }
  if (error) return absl::NotFoundError(absl::StrCat(path, ": ", error.message()));
  return stamp;
}

// Returns the difference between two stamps of one source, in words; empty if there is none.
std::string Difference(const std::string& path, const SourceStamp& there, const SourceStamp& here) {
  const auto place = [&path](const std::string& name) {
    return name.empty() ? path : absl::StrCat(path, "/", name);
  };
  for (const auto& [name, then] : there) {
    const auto now = here.find(name);
    if (now == here.end()) return absl::StrCat(place(name), " is gone");
    if (now->second.digest == then.digest) continue;
    return absl::StrCat(place(name), " has other bytes (SHA-256 ",
                        then.digest.substr(0, kStampShown), " then, ",
                        now->second.digest.substr(0, kStampShown), " now)");
  }
  for (const auto& [name, now] : here) {
    if (there.count(name) == 0) return absl::StrCat(place(name), " is new");
  }
  return "";
}

// Returns the sources of a run's data before a partition, and whose they are.
absl::StatusOr<std::map<std::string, std::string>> SourcesOf(const RunPlan& plan) {
  std::map<std::string, std::string> sources;
  const DataConfig& data = plan.config.data;
  if (plan.partition) {
    sources[plan.partition->path] = "the data";
  } else if (HasPeerPlace(data.path)) {
    for (uint32_t peer = 1; peer <= MostPeersOf(plan); ++peer) {
      sources[PathOfPeer(data.path, peer)] = absl::StrCat("party ", peer, "'s data");
    }
  } else {
    ASSIGN_OR_RETURN(const std::vector<DataSource> named, atolld::SourcesOf(data));
    for (const DataSource& source : named) sources[source.path] = "the data";
  }
  const std::pair<std::string, const char*> others[] = {
      {data.validation, "the validation data"},
      {IsTokenizerFile(data.tokenizer) ? data.tokenizer : "", "the tokenizer"},
      {plan.config.model.initial, "the model that it begins with"},
      {plan.config.model.base, "the model beneath the adapters"}};
  for (const auto& [path, whose] : others) {
    if (!path.empty()) sources[path] = whose;
  }
  return sources;
}

std::string SpanText(absl::Duration span) { return absl::FormatDuration(span); }

}  // namespace

absl::StatusOr<ExperimentRecord> ReadRecord(Files& files, const std::string& dir) {
  const std::string path = absl::StrCat(dir, "/", kRecordFile);
  ExperimentRecord record;
  if (!files.Exists(path)) return record;
  ASSIGN_OR_RETURN(const std::string text, ReadFile(files, path, kMostRecord));
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("runs") || !json.contains("data")) return Damaged(path);
  for (const auto& [id, run] : json["runs"].items()) {
    if (!run.is_object() || !run.contains("setting") || !run["setting"].is_string() ||
        !run.contains("seed") || !run["seed"].is_number_unsigned() || !run.contains("plan") ||
        !run["plan"].is_string()) {
      return Damaged(path);
    }
    record.runs[id] = {run["setting"], run["seed"], run["plan"]};
  }
  for (const auto& [source, stamps] : json["data"].items()) {
    for (const auto& [name, stamp] : stamps.items()) {
      if (!stamp.is_object() || !stamp.contains("bytes") || !stamp["bytes"].is_number_unsigned() ||
          !stamp.contains("modified") || !stamp["modified"].is_number_integer() ||
          !stamp.contains("digest") || !stamp["digest"].is_string()) {
        return Damaged(path);
      }
      record.data[source][name] = {stamp["bytes"], stamp["modified"], stamp["digest"]};
    }
  }
  return record;
}

absl::Status WriteRecord(Files& files, const std::string& dir, const ExperimentRecord& record) {
  Json json = {{"runs", Json::object()}, {"data", Json::object()}};
  for (const auto& [id, run] : record.runs) {
    json["runs"][id] = {{"setting", run.setting}, {"seed", run.seed}, {"plan", run.plan}};
  }
  for (const auto& [source, stamps] : record.data) {
    Json& there = json["data"][source] = Json::object();
    for (const auto& [name, stamp] : stamps) {
      there[name] = {
          {"bytes", stamp.bytes}, {"modified", stamp.modified}, {"digest", stamp.digest}};
    }
  }
  return WriteFileDurably(files, absl::StrCat(dir, "/", kRecordFile), BytesOf(JsonText(json)));
}

std::map<std::pair<std::string, uint64_t>, std::string> IdsOf(const ExperimentRecord& record) {
  std::map<std::pair<std::string, uint64_t>, std::string> ids;
  for (const auto& [id, run] : record.runs) ids[{run.setting, run.seed}] = id;
  return ids;
}

// Returns only the keys and values: comments belong to a release and not to a run.
std::string WithoutComments(absl::string_view toml) {
  std::string text;
  bool quoted = false;
  bool comment = false;
  for (const char c : toml) {
    quoted = c == '\n' ? false : quoted != (c == '"');
    comment = c != '\n' && (comment || (c == '#' && !quoted));
    if (c == '\n') absl::StripTrailingAsciiWhitespace(&text);
    if (!comment) text += c;
  }
  return text;
}

std::string PlanText(const Experiment& experiment, const RunPlan& plan) {
  std::string text = plan.partition ? plan.partition->Text() : "";
  const ExperimentKeys& keys = plan.keys;
  absl::StrAppend(&text, "parties = ", keys.parties, "\nhosts = ", keys.hosts,
                  "\nramp = ", keys.ramp, "\nspeeds = ", keys.speeds,
                  "\nkill_every = ", SpanText(keys.faults.kill_every),
                  "\npause_every = ", SpanText(keys.faults.pause_every),
                  "\ncut_every = ", SpanText(keys.faults.cut_every),
                  "\ndown = ", SpanText(keys.faults.down), "\n");
  for (const LinkKeys& link : experiment.links) {
    absl::StrAppend(&text, "link ", link.pattern, " = ", link.up, " up, ", link.down, " down, ",
                    SpanText(link.delay), ", ", link.loss, " lost\n");
  }
  Config config = plan.config;
  config.run.id.clear();
  return absl::StrCat(text, WithoutComments(FormatConfig(config)));
}

bool HasBegun(Files& files, const std::string& dir, const std::string& id) {
  const RunPaths paths = PathsOf(dir, id);
  return files.Exists(absl::StrCat(paths.dir, "/", kPeersFile)) || IsFinishedRun(files, paths);
}

absl::Status TakeRuns(Files& files, const std::string& dir, const Experiment& experiment,
                      const std::vector<RunPlan>& plans, ExperimentRecord* record) {
  for (const RunPlan& plan : plans) {
    const std::string& setting = experiment.settings[plan.setting].name;
    std::string text = PlanText(experiment, plan);
    const auto known = record->runs.find(plan.id);
    if (known != record->runs.end() && known->second.plan != text &&
        HasBegun(files, dir, plan.id)) {
      const std::string difference = FirstDifference(known->second.plan, text);
      return absl::FailedPreconditionError(absl::StrCat(
          dir, " was begun with another file: ", setting, ", seed ", plan.seed, " has begun with ",
          difference.substr(difference.find('`')),
          "; give the setting another name, --fresh to begin anew there, or another --dir"));
    }
    record->runs[plan.id] = {setting, plan.seed, std::move(text)};
  }
  return absl::OkStatus();
}

absl::Status TakeData(Files& files, const std::string& dir, const std::vector<RunPlan>& plans,
                      ExperimentRecord* record) {
  const bool begun = std::any_of(record->runs.begin(), record->runs.end(),
                                 [&](const auto& run) { return HasBegun(files, dir, run.first); });
  std::map<std::string, std::string> sources;
  for (const RunPlan& plan : plans) {
    ASSIGN_OR_RETURN(const auto own, SourcesOf(plan));
    sources.insert(own.begin(), own.end());
  }
  for (const auto& [path, whose] : sources) {
    const SourceStamp& there = record->data[path];
    ASSIGN_OR_RETURN(SourceStamp here, StampSource(path, there));
    const std::string difference = there.empty() ? "" : Difference(path, there, here);
    if (begun && !difference.empty()) {
      return absl::FailedPreconditionError(absl::StrCat(
          whose, " is not what the experiment in ", dir, " was begun with: ", difference,
          "; put it back, or give --fresh to begin anew there, or another --dir"));
    }
    record->data[path] = std::move(here);
  }
  return absl::OkStatus();
}

}  // namespace atolld
