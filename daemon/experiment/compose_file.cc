#include "daemon/experiment/compose_file.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <system_error>
#include <utility>
#include <variant>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "compression/base/status_macros.h"
#include "daemon/cli/local/local_plan.h"
#include "daemon/config/config_text.h"
#include "daemon/config/data_config.h"
#include "daemon/experiment/compose_template.h"
#include "daemon/experiment/run_plan.h"

namespace atolld {
namespace {

// The paths in the containers of what the image's entrypoint makes or expects.
constexpr char kPartyPath[] = "/parties/PARTY";
constexpr char kHeldOut[] = "/parties/data/validation.";
constexpr char kMounted[] = "/files/";
constexpr char kLeaderAddress[] = "coordinator:7070";
constexpr absl::string_view kDefaultLine = "default";

absl::Status CannotBeContained(const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat("containers cannot do this: ", what));
}

// Quotes a text for both YAML and TOML, which accept JSON's strings.
std::string Quoted(const std::string& text) { return nlohmann::json(text).dump(); }

// Does the same for a text in which Compose would take a dollar for a variable.
std::string QuotedForCompose(const std::string& text) {
  return Quoted(absl::StrReplaceAll(text, {{"$", "$$"}}));
}

// Makes the files of one setting with one seed.
class ComposeMaker {
 public:
  ComposeMaker(const Experiment& experiment, RunPlan plan, std::string folder, ComposeUse use)
      : experiment_(experiment),
        plan_(std::move(plan)),
        config_(plan_.config),
        folder_(std::move(folder)),
        use_(use) {}

  absl::StatusOr<ComposeFiles> Make() {
    RETURN_IF_ERROR(CheckSetting());
    RETURN_IF_ERROR(PlaceData());
    RETURN_IF_ERROR(PlaceFiles());
    ComposeFiles files;
    files.peers = config_.run.peers;
    if (plan_.partition) files.configs["experiment.toml"] = ExperimentText();
    files.configs["peer.toml"] = PeerText();
    files.configs["coordinator.toml"] = CoordinatorText();
    files.compose = ComposeText();
    return files;
  }

 private:
  absl::Status CheckSetting() const {
    if (!plan_.keys.ramp.empty()) {
      return CannotBeContained(
          "[experiment] ramp: the number of containers is docker compose's to change, by "
          "`up --scale peer=N`; leave ramp out");
    }
    if (!plan_.keys.speeds.empty()) {
      return CannotBeContained(
          "[experiment] speeds: all peers share one config; run it here, or leave speeds out");
    }
    if (!config_.data.sources.empty()) {
      return CannotBeContained(
          "[data] sources: a container has one place for data; set [data] path");
    }
    if (!config_.worker.program.empty()) {
      return CannotBeContained(
          "[worker] program: the image has Atoll's own workers alone; leave it out");
    }
    if (plan_.partition && plan_.partition->parties == 0) {
      return CannotBeContained(
          "a partition that does not say for how many parties: containers are started before the "
          "data is dealt out; set [experiment] parties");
    }
    if (config_.network.plaintext) {
      return CannotBeContained("[network] plaintext: peers enrol by token; leave it out");
    }
    return absl::OkStatus();
  }

  // Mounts a file or folder of this machine, and makes the path that of the containers.
  absl::Status Mount(const std::string& key, std::string* path) {
    if (path->empty()) return absl::OkStatus();
    std::error_code error;
    if (!std::filesystem::exists(*path, error)) {
      return absl::InvalidArgumentError(absl::StrCat(experiment_.path, ": ", key, ": there is no ",
                                                     *path, ", which containers are to have"));
    }
    const std::string source = std::filesystem::absolute(*path, error).lexically_normal().string();
    const std::string name = std::filesystem::path(source).filename().string();
    *path = absl::StrCat(kMounted, absl::StrReplaceAll(key, {{" ", "-"}}), "/", name);
    mounts_.emplace_back(source, *path);
    return absl::OkStatus();
  }

  absl::Status PlaceData() {
    whole_data_ = config_.data.path;
    if (IsForeign(config_.model.kind) || config_.model.kind == kStubKind) {
      return config_.data.path.empty() ? absl::OkStatus() : Mount("data path", &config_.data.path);
    }
    RETURN_IF_ERROR(Mount("data path", &whole_data_));
    config_.data.path = whole_data_;
    if (!plan_.partition) return Mount("data validation", &config_.data.validation);
    config_.data.is_private = true;
    config_.data.path = kPartyPath;
    config_.data.validation =
        plan_.partition->validation > 0
            ? absl::StrCat(kHeldOut, plan_.partition->kind == "jsonl" ? "jsonl" : "txt")
            : "";
    return absl::OkStatus();
  }

  absl::Status PlaceFiles() {
    if (IsTokenizerFile(config_.data.tokenizer)) {
      RETURN_IF_ERROR(Mount("data tokenizer", &config_.data.tokenizer));
    }
    RETURN_IF_ERROR(Mount("model initial", &config_.model.initial));
    RETURN_IF_ERROR(Mount("model base", &config_.model.base));
    RETURN_IF_ERROR(Mount("model file", &config_.model.file));
    RETURN_IF_ERROR(Mount("model path", &config_.model.path));
    return Mount("availability trace", &config_.availability.trace);
  }

  // What deals the data out, and nothing else.
  std::string ExperimentText() const {
    std::map<std::string, std::string> values;
    const auto take = [&](const SettingChange& change) {
      if (change.section != "partition") return;
      const std::string text = change.ValueText();
      values[change.key] = std::holds_alternative<std::string>(change.value) ? Quoted(text) : text;
    };
    for (const SettingChange& change : experiment_.partition) take(change);
    for (const SettingChange& change : experiment_.settings[plan_.setting].changes) take(change);
    values["parties"] = absl::StrCat(plan_.partition->parties);
    values["seed"] = absl::StrCat(plan_.partition->seed);
    std::string text = absl::StrCat("# Who has what. Written by `atoll experiment compose`.\n\n",
                                    "[experiment]\nname = ", Quoted(experiment_.name),
                                    "\n\n[data]\npath = ", Quoted(whole_data_),
                                    "\nkind = ", Quoted(plan_.partition->kind));
    if (!config_.data.field.empty()) {
      absl::StrAppend(&text, "\nfield = ", Quoted(config_.data.field));
    }
    absl::StrAppend(&text, "\n\n[partition]\n");
    for (const auto& [key, value] : values) absl::StrAppend(&text, key, " = ", value, "\n");
    return text;
  }

  // One file for all peers: the entrypoint puts in what is a peer's own.
  std::string PeerText() const {
    Config config = config_;
    config.run = {};
    config.coordinator = {};
    config.coordinator.address = kLeaderAddress;
    config.peer.id = "peer-0";
    config.peer.listen = "0.0.0.0:7071";
    config.peer.advertise = "HOST:7071";
    config.peer.dir = "/data/peer";
    config.peer.region = "REGION";
    config.http = {};
    return absl::StrCat(
        "# Every peer: the image's entrypoint puts this one's values in the place of the words in\n"
        "# capitals. Written by `atoll experiment compose`.\n",
        FormatConfig(config));
  }

  std::string CoordinatorText() const {
    Config config = config_;
    if (plan_.partition) config.data.path.clear();  // parties' alone
    config.coordinator.address = kLeaderAddress;
    config.coordinator.listen = "0.0.0.0:7070";
    config.coordinator.dir = "/data/coordinator";
    config.coordinator.exit_when_sealed = use_ == ComposeUse::kByHand;
    config.coordinator.aggregator = "never";
    config.peer = {};
    config.parties = {};
    config.availability = {};
    config.http = {};
    config.http.listen = "127.0.0.1:7080";
    return absl::StrCat("# The coordinator. Written by `atoll experiment compose`.\n",
                        FormatConfig(config));
  }

  std::string MountsText(bool data_too) const {
    std::vector<std::pair<std::string, std::string>> all = {{folder_, "/etc/atoll"}};
    for (const auto& mount : mounts_) {
      if (data_too || mount.second != whole_data_) all.push_back(mount);
    }
    std::vector<std::string> lines;
    for (const auto& [source, target] : all) {
      lines.push_back(absl::StrCat("      - {type: bind, source: ", QuotedForCompose(source),
                                   ", target: ", QuotedForCompose(target), ", read_only: true}"));
    }
    return absl::StrJoin(lines, "\n");
  }

  std::string LineText(const std::string& party) const {
    const LinkKeys* const link = LinkOf(experiment_.links, party);
    if (link == nullptr) return "";
    std::string text = absl::StrCat(
        config_.peer.region, ":", link->up == 0 ? "" : FormatLineRate(link->up), ":",
        link->down == 0 ? "" : FormatLineRate(link->down), ":", absl::FormatDuration(link->delay));
    if (link->loss > 0) absl::StrAppend(&text, ":", link->loss / 100);
    return text;
  }

  // Returns the lines of the peers in turn; empty if all are as fast as the machine allows.
  std::string LinesText() const {
    if (experiment_.links.empty()) return "";
    std::vector<std::string> lines;
    for (uint32_t peer = 1; peer <= config_.run.peers; ++peer) {
      const std::string line = LineText(absl::StrCat("party-", peer));
      lines.push_back(line.empty() ? ":::" : line);
    }
    if (std::all_of(lines.begin(), lines.end(), [&](const auto& one) { return one == lines[0]; })) {
      lines.resize(1);
    }
    return absl::StrJoin(lines, " ");
  }

  std::string ComposeText() const {
    const FaultKeys& faults = plan_.keys.faults;
    const auto seconds = [](absl::Duration duration) {
      return absl::StrCat(absl::ToInt64Seconds(duration));
    };
    const absl::Duration none = absl::ZeroDuration();
    const bool any =
        faults.kill_every > none || faults.pause_every > none || faults.cut_every > none;
    const std::string lines = LinesText();
    const std::string hosted =
        config_.parties.hosted == 0 ? "" : absl::StrCat(config_.parties.hosted);
    // A peer that names what it cannot have is refused by the engine: the device is for lines
    // alone.
    std::string text = absl::StrReplaceAll(
        kComposeTemplate,
        {{"@TITLE@", absl::StrCat(experiment_.name, ": ", experiment_.settings[plan_.setting].name,
                                  ", seed ", plan_.seed)},
         {"@PEERS@", absl::StrCat(config_.run.peers)},
         {"@LINES@", QuotedForCompose(lines)},
         {"@DASHBOARD@", use_ == ComposeUse::kByHand ? "7080" : "0"},
         {"@HOSTED@", Quoted(hosted)},
         {"@SEED@", absl::StrCat(plan_.seed)},
         {"@DEVICES@\n", lines.empty() && !any ? "" : "    devices: [\"/dev/net/tun\"]\n"},
         {"@CHAOS_PROFILE@\n", any ? "" : "    profiles: [\"chaos\"]\n"},
         {"@KILL_EVERY@", seconds(faults.kill_every)},
         {"@PAUSE_EVERY@", seconds(faults.pause_every)},
         {"@CUT_EVERY@", seconds(faults.cut_every)},
         {"@DOWN@", seconds(faults.down)}});
    const bool shares_data = !plan_.partition;
    const size_t peer = text.find("\n  peer:\n");
    return absl::StrCat(
        absl::StrReplaceAll(text.substr(0, peer), {{"@MOUNTS@", MountsText(true)}}),
        absl::StrReplaceAll(text.substr(peer), {{"@MOUNTS@", MountsText(shares_data)}}));
  }

  const Experiment& experiment_;
  const RunPlan plan_;
  Config config_;
  const std::string folder_;
  const ComposeUse use_;
  std::string whole_data_;  // as the containers have it
  std::vector<std::pair<std::string, std::string>> mounts_;
};

absl::StatusOr<std::string> TextOfFile(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  if (!stream) return absl::NotFoundError(absl::StrCat(path, ": cannot be read"));
  return text.str();
}

absl::Status WriteNewFile(const std::string& path, const std::string& text) {
  std::error_code error;
  if (std::filesystem::exists(path, error)) {
    ASSIGN_OR_RETURN(const std::string there, TextOfFile(path));
    if (there == text) return absl::OkStatus();
    return absl::AlreadyExistsError(
        absl::StrCat(path, " is there and says something else: remove it, or name another --out"));
  }
  std::ofstream stream(path, std::ios::binary);
  stream << text;
  stream.close();
  if (!stream) return absl::InvalidArgumentError(absl::StrCat(path, ": cannot be written"));
  return absl::OkStatus();
}

}  // namespace

const LinkKeys* LinkOf(const std::vector<LinkKeys>& links, const std::string& party) {
  const LinkKeys* found = nullptr;
  bool named = false;
  for (const LinkKeys& link : links) {
    if (link.pattern == party) {
      found = &link;
      named = true;
    }
    const bool fits =
        link.pattern == kDefaultLine ? found == nullptr : MatchesPattern(link.pattern, party);
    if (!named && fits) found = &link;
  }
  return found;
}

absl::StatusOr<ComposeFiles> MakeCompose(const Experiment& experiment, size_t setting,
                                         uint64_t seed, const std::string& folder, ComposeUse use) {
  ASSIGN_OR_RETURN(RunPlan plan, PlanRun(experiment, setting, seed, std::nullopt));
  return ComposeMaker(experiment, std::move(plan), folder, use).Make();
}

std::string ComposeFolder(const std::string& out) {
  return absl::StrCat("./", std::filesystem::path(out).stem().string());
}

absl::StatusOr<std::vector<std::string>> WriteCompose(const ComposeFiles& files,
                                                      const std::string& out) {
  const std::filesystem::path file(out);
  const std::filesystem::path folder = file.parent_path() / file.stem();
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    return absl::InvalidArgumentError(
        absl::StrCat(folder.string(), ": cannot be made: ", error.message()));
  }
  std::vector<std::string> written;
  for (const auto& [name, text] : files.configs) {
    written.push_back((folder / name).string());
    RETURN_IF_ERROR(WriteNewFile(written.back(), text));
  }
  written.push_back(out);
  const std::string compose =
      absl::StrReplaceAll(files.compose, {{"@FILE@", file.filename().string()}});
  RETURN_IF_ERROR(WriteNewFile(out, compose));
  return written;
}

}  // namespace atolld
