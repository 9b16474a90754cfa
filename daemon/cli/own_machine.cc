#include "daemon/cli/own_machine.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "compression/base/words.h"
#include "daemon/program/format.h"

namespace atolld {
namespace {

using OrderedJson = nlohmann::ordered_json;
namespace fs = std::filesystem;

constexpr int kLabelColumns = 10;

bool IsOwn(const std::string& path) {
  struct stat status = {};
  return stat(path.c_str(), &status) == 0 && S_ISSOCK(status.st_mode) && status.st_uid == geteuid();
}

absl::Time TimeOf(double unix_seconds) { return absl::UnixEpoch() + absl::Seconds(unix_seconds); }

std::string When(absl::Time then, absl::Time now, const absl::TimeZone& zone) {
  const bool today = absl::ToCivilDay(then, zone) == absl::ToCivilDay(now, zone);
  return absl::FormatTime(today ? "%H:%M:%S" : "%a %Y-%m-%d %H:%M", then, zone);
}

std::string NowText(const v1::MachineStatus& status) {
  const v1::PeerProgress& progress = status.progress();
  if (status.sealed()) return "the run is sealed";
  if (!progress.held_back().empty()) return "held back by its owner";
  if (progress.phase() != "training") {
    return progress.phase().empty() ? "starting" : progress.phase();
  }
  std::string text = absl::StrCat("training round ", progress.version() + 1, ", step ",
                                  progress.step(), " of ", progress.steps());
  if (progress.loss() > 0) absl::StrAppendFormat(&text, ", loss %.4f", progress.loss());
  if (progress.tokens_per_second() > 0) {
    absl::StrAppend(&text, ", ", FormatRate(progress.tokens_per_second()), " tokens/s");
  }
  return text;
}

// Lists the limits that differ from the defaults.
std::string LimitsLine(const v1::MachineStatus& status) {
  std::vector<std::string> set;
  for (const v1::Limit& limit : status.limits()) {
    if (limit.from() != "default") set.push_back(absl::StrCat(limit.key(), " = ", limit.value()));
  }
  return set.empty() ? "none; `atoll limits set` sets them" : absl::StrJoin(set, ", ");
}

std::string GaveText(const v1::MachineStatus& status) {
  std::string text =
      absl::StrCat(Counted(status.rounds(), "round"), ", ", WithThousands(status.tokens()),
                   " tokens; today ", FormatSeconds(status.train_seconds_today()), " of training");
  const uint64_t sent = status.bytes_sent_today();
  const uint64_t received = status.bytes_received_today();
  if (sent + received > 0) {
    absl::StrAppend(&text, ", ", FormatBytes(static_cast<double>(sent)), " sent, ",
                    FormatBytes(static_cast<double>(received)), " received");
  }
  return text;
}

std::string OrderText(const v1::MachineStatus& status, absl::Time now, const absl::TimeZone& zone) {
  if (status.finishing()) return "finish the round under way, then pause";
  if (!status.paused()) return "";
  if (status.paused_until_unix_seconds() <= 0) return "pause until `atoll resume`";
  return absl::StrCat("pause until ", When(TimeOf(status.paused_until_unix_seconds()), now, zone));
}

}  // namespace

bool IsPeerFolder(const std::string& dir) {
  std::error_code error;
  for (const std::string& name :
       {std::string("signing_key.pem"), std::string(kMachineSocket),
        absl::StrCat(kMachineSocket, ".folder"), std::string(kOwnerStateFile)}) {
    if (fs::exists(absl::StrCat(dir, "/", name), error)) return true;
  }
  return false;
}

std::string WithoutSocket(int64_t pid) {
  return absl::StrCat("its daemon runs as pid ", pid,
                      "; its socket is gone, and it makes another within seconds: ask again");
}

std::vector<std::string> RunningPeers(const std::string& root) {
  std::ifstream sockets(root + "/proc/net/unix");
  std::set<std::string> folders;
  std::string line;
  const std::string ending = absl::StrCat("/", kMachineSocket);
  while (std::getline(sockets, line)) {
    const size_t begin = line.find('/');
    if (begin == std::string::npos) continue;
    absl::string_view path = absl::string_view(line).substr(begin);
    if (!absl::ConsumeSuffix(&path, ending) || !IsOwn(absl::StrCat(path, ending))) continue;
    if (IsPeerFolder(std::string(path))) folders.insert(std::string(path));
  }
  return {folders.begin(), folders.end()};
}

absl::StatusOr<std::string> FindPeerFolder(const std::string& named, const std::string& current,
                                           const std::vector<std::string>& running) {
  if (!named.empty()) {
    if (IsPeerFolder(named)) return named;
    return absl::InvalidArgumentError(absl::StrCat(
        named, " is not a peer's folder; in a local run it is DIR/peer-1, for example"));
  }
  if (IsPeerFolder(current)) return current;
  if (running.size() == 1) return running[0];
  if (running.empty()) {
    return absl::InvalidArgumentError(
        "no peer of yours runs on this machine, and this folder is not a peer's: name one, --dir "
        "DIR");
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "several peers run on this machine, name one: --dir ", absl::StrJoin(running, ", --dir ")));
}

v1::MachineStatus StatusOfFolder(const OwnerState& state) {
  v1::MachineStatus status;
  status.set_rounds(state.rounds);
  status.set_tokens(state.tokens);
  status.set_paused(state.order.kind == OwnerOrder::Kind::kPause);
  status.set_finishing(state.order.kind == OwnerOrder::Kind::kFinish);
  if (status.paused() && state.order.until != absl::InfiniteFuture()) {
    status.set_paused_until_unix_seconds(
        absl::ToDoubleSeconds(state.order.until - absl::UnixEpoch()));
  }
  status.add_idle("its daemon does not run");
  return status;
}

OrderedJson LimitsJson(const v1::MachineStatus& status) {
  OrderedJson all = OrderedJson::array();
  for (const v1::Limit& limit : status.limits()) {
    all.push_back({{"key", limit.key()},
                   {"value", limit.value()},
                   {"from", limit.from()},
                   {"meaning", limit.meaning()}});
  }
  return all;
}

OrderedJson MachineJson(const OwnMachine& machine) {
  const v1::MachineStatus& status = machine.status;
  const v1::PeerProgress& progress = status.progress();
  return {{"dir", machine.dir},
          {"running", machine.running},
          {"silent_pid", machine.silent_pid},
          {"peer", status.peer()},
          {"run_id", status.run_id()},
          {"coordinator", status.coordinator()},
          {"connected", status.connected()},
          {"role", status.role()},
          {"device", status.device()},
          {"progress",
           {{"phase", progress.phase()},
            {"version", progress.version()},
            {"step", progress.step()},
            {"steps", progress.steps()},
            {"loss", progress.loss()},
            {"tokens_per_second", progress.tokens_per_second()},
            {"held_back", progress.held_back()}}},
          {"idle", std::vector<std::string>(status.idle().begin(), status.idle().end())},
          {"idle_since_unix_seconds", status.idle_since_unix_seconds()},
          {"paused", status.paused()},
          {"paused_until_unix_seconds", status.paused_until_unix_seconds()},
          {"finishing", status.finishing()},
          {"limits", LimitsJson(status)},
          {"started_unix_seconds", status.started_unix_seconds()},
          {"rounds", status.rounds()},
          {"tokens", status.tokens()},
          {"bytes_sent_today", status.bytes_sent_today()},
          {"bytes_received_today", status.bytes_received_today()},
          {"train_seconds_today", status.train_seconds_today()},
          {"run_phase", status.run_phase()},
          {"rounds_of_run", status.rounds_of_run()},
          {"sealed", status.sealed()}};
}

std::vector<std::string> MachineText(const OwnMachine& machine, absl::Time now,
                                     const absl::TimeZone& zone) {
  const v1::MachineStatus& status = machine.status;
  std::vector<std::string> lines;
  const auto line = [&lines](const std::string& label, const std::string& text) {
    if (!text.empty()) lines.push_back(PadRight(label, kLabelColumns) + text);
  };
  if (machine.silent_pid != 0) {
    line("peer", WithoutSocket(machine.silent_pid));
  } else if (!machine.running) {
    line("peer", absl::StrCat("no daemon runs in ", machine.dir));
    line("start it",
         fs::exists(machine.dir + "/config.toml")
             ? ShellCommand({"atolld", "peer", "--config", machine.dir + "/config.toml"})
             : "");
  } else {
    line("peer", absl::StrCat(status.peer(), status.role() == "aggregator" ? " (aggregator)" : "",
                              status.device().empty() ? "" : " on ", status.device(), ", since ",
                              When(TimeOf(status.started_unix_seconds()), now, zone)));
    line("run",
         absl::StrCat(
             status.run_id().empty() ? "none yet" : status.run_id(), ", version ",
             status.progress().version(),
             status.rounds_of_run() > 0 ? absl::StrCat(" of ", status.rounds_of_run()) : "",
             ", coordinator ", status.coordinator(), status.connected() ? "" : " (not connected)"));
    line("now", NowText(status));
    for (const std::string& reason : status.idle()) line("idle", reason);
    if (status.idle_since_unix_seconds() > 0) {
      const absl::Time since = TimeOf(status.idle_since_unix_seconds());
      line("since", absl::StrCat(When(since, now, zone), ", ",
                                 FormatSeconds(absl::ToDoubleSeconds(now - since))));
    }
  }
  line("order", OrderText(status, now, zone));
  line("gave", GaveText(status));
  if (machine.running) line("limits", LimitsLine(status));
  return lines;
}

std::vector<std::string> LimitsText(const v1::MachineStatus& status) {
  std::vector<std::vector<std::string>> rows = {{"limit", "value", "from", "meaning"}};
  for (const v1::Limit& limit : status.limits()) {
    rows.push_back({limit.key(), limit.value(), limit.from(), limit.meaning()});
  }
  return AlignColumns(rows, "<<<<");
}

}  // namespace atolld
