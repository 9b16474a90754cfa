// `atoll status`, `pause`, `finish`, `resume`, `limits show` and `limits set`: the questions and
// orders of a machine's owner to the peer on it.
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "compression/base/status_macros.h"
#include "compression/base/terminal.h"
#include "daemon/cli/own_machine.h"
#include "daemon/cli/verbs/admin_verb.h"
#include "daemon/cli/verbs/verbs.h"
#include "daemon/cli/worker_tool.h"
#include "daemon/config/config.h"
#include "daemon/env/posix_files.h"
#include "daemon/env/posix_folder_lock.h"
#include "daemon/env/worker_socket.h"
#include "daemon/figures/status_json.h"
#include "daemon/machine/limit_book.h"
#include "daemon/machine/owner_control.h"
#include "daemon/program/process.h"
#include "daemon/transport/machine_client.h"

namespace atolld {
namespace {

constexpr uint64_t kLongestFile = uint64_t{1} << 16;

struct MachineOptions {
  std::string dir;
  std::string pause_for;            // "3h"; empty: until resume
  std::vector<std::string> limits;  // KEY=VALUE
  bool until_restart = false;
  bool json = false;
};

absl::StatusOr<std::string> FolderOf(const MachineOptions& options) {
  return FindPeerFolder(options.dir.empty() ? "" : AbsoluteFolder(options.dir),
                        std::filesystem::current_path().string(), RunningPeers());
}

// Returns the pid of a daemon that runs there without its socket; 0 if there is none.
int64_t SilentPid(const std::string& dir) {
  if (WorkerSocket::Find(dir, kMachineSocket).ok()) return 0;
  return RunningDaemon(dir).value_or(0);
}

// Fails with UNAVAILABLE if no daemon runs there.
absl::StatusOr<MachineClient> ClientOf(const std::string& dir) {
  const absl::StatusOr<std::string> address = WorkerSocket::Find(dir, kMachineSocket);
  if (!address.ok()) return absl::UnavailableError(absl::StrCat("no daemon runs in ", dir));
  return MachineClient(*address);
}

absl::Status NotRunning(const std::string& dir, const absl::Status& why) {
  if (!absl::IsUnavailable(why)) return why;
  if (const int64_t pid = SilentPid(dir); pid != 0) {
    return absl::UnavailableError(absl::StrCat(dir, ": ", WithoutSocket(pid)));
  }
  return absl::UnavailableError(absl::StrCat("no daemon runs in ", dir,
                                             ": start it, and give the order again; what holds "
                                             "without it `atoll status` says"));
}

absl::StatusOr<std::string> ReadOr(Files& files, const std::string& path) {
  if (!files.Exists(path)) return std::string();
  return ReadFile(files, path, kLongestFile);
}

// Reads the config of a joined peer; another peer's may be elsewhere.
absl::StatusOr<Config> ConfigIn(Files& files, const std::string& dir) {
  const std::string file = absl::StrCat(dir, "/config.toml");
  if (!files.Exists(file)) return absl::NotFoundError(file);
  return LoadConfig(file, ConfigUse::kPeer);
}

// Returns what the folder says about a peer that does not run.
absl::StatusOr<OwnMachine> LookAtFolder(const std::string& dir) {
  PosixFiles files;
  ASSIGN_OR_RETURN(const std::string text, ReadOr(files, absl::StrCat(dir, "/", kOwnerStateFile)));
  const absl::StatusOr<OwnerState> state = OwnerState::Parse(text);
  RETURN_IF_ERROR(Annotate(state.status(), absl::StrCat(dir, "/", kOwnerStateFile)));
  OwnMachine machine;
  machine.dir = dir;
  machine.status = StatusOfFolder(*state);
  const absl::StatusOr<Config> config = ConfigIn(files, dir);
  if (config.ok()) {  // else `atoll config validate` says what is wrong with it
    machine.status.set_peer(config->peer.id);
    machine.status.set_role(config->peer.role);
    machine.status.set_coordinator(config->coordinator.address);
  }
  LimitBook book(config.ok() ? config->machine : MachineConfig());
  ASSIGN_OR_RETURN(const std::string kept, ReadOr(files, absl::StrCat(dir, "/", kLimitsFile)));
  RETURN_IF_ERROR(Annotate(book.Load(kept), absl::StrCat(dir, "/", kLimitsFile)));
  for (v1::Limit& limit : book.List()) {
    // A config in another folder is not known here.
    if (config.ok() || limit.from() == "set") *machine.status.add_limits() = std::move(limit);
  }
  return machine;
}

absl::StatusOr<OwnMachine> LookAtMachine(const MachineOptions& options) {
  ASSIGN_OR_RETURN(const std::string dir, FolderOf(options));
  const absl::StatusOr<MachineClient> client = ClientOf(dir);
  if (client.ok()) {
    const absl::StatusOr<v1::MachineStatus> status = client->Show();
    if (status.ok()) return OwnMachine{dir, true, *status, 0};
    if (!absl::IsUnavailable(status.status())) return status.status();
  }
  absl::StatusOr<OwnMachine> machine = LookAtFolder(dir);
  if (machine.ok()) machine->silent_pid = SilentPid(dir);
  return machine;
}

VerbExit PrintMachine(const MachineOptions& options, const absl::StatusOr<OwnMachine>& machine) {
  RETURN_IF_ERROR(machine.status());
  return PrintAnswer(options.json, MachineJson(*machine),
                     MachineText(*machine, absl::Now(), absl::LocalTimeZone()));
}

// Returns 0 for until `atoll resume`.
absl::StatusOr<uint64_t> SecondsOf(const std::string& text) {
  if (text.empty()) return 0;
  absl::Duration duration;
  if (!absl::ParseDuration(text, &duration) || duration < absl::Seconds(1) ||
      duration > absl::Hours(24 * 366)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--for '", text, "': a time with its unit, from 1s to a year, as in 30m or 3h"));
  }
  return static_cast<uint64_t>(absl::ToInt64Seconds(duration));
}

using Question = absl::StatusOr<v1::MachineStatus> (*)(const MachineClient&, uint64_t seconds);

absl::StatusOr<OwnMachine> AskOwn(const MachineOptions& options, Question question) {
  ASSIGN_OR_RETURN(const uint64_t seconds, SecondsOf(options.pause_for));
  ASSIGN_OR_RETURN(const std::string dir, FolderOf(options));
  const absl::StatusOr<MachineClient> client = ClientOf(dir);
  if (!client.ok()) return NotRunning(dir, client.status());
  const absl::StatusOr<v1::MachineStatus> status = question(*client, seconds);
  if (!status.ok()) return NotRunning(dir, status.status());
  return OwnMachine{dir, true, *status, 0};
}

VerbExit PauseHere(const MachineOptions& options) {
  return PrintMachine(options, AskOwn(options, [](const MachineClient& client, uint64_t seconds) {
                        return client.Pause(seconds);
                      }));
}

VerbExit FinishHere(const MachineOptions& options) {
  return PrintMachine(options, AskOwn(options, [](const MachineClient& client, uint64_t seconds) {
                        return client.FinishRound(seconds);
                      }));
}

VerbExit ResumeHere(const MachineOptions& options) {
  return PrintMachine(options, AskOwn(options, [](const MachineClient& client, uint64_t) {
                        return client.Resume();
                      }));
}

using LimitValues = std::vector<std::pair<std::string, std::string>>;

absl::StatusOr<LimitValues> LimitsOf(const MachineOptions& options) {
  LimitValues values;
  for (const std::string& text : options.limits) {
    if (text.find('=') == std::string::npos) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", text, "' is not a limit; write KEY=VALUE, as in others_above=25"));
    }
    values.push_back(absl::StrSplit(text, absl::MaxSplits('=', 1)));
  }
  return values;
}

absl::StatusOr<v1::MachineStatus> AskForLimits(const MachineClient& client,
                                               const MachineOptions& options) {
  ASSIGN_OR_RETURN(const LimitValues values, LimitsOf(options));
  v1::SetLimitsRequest request;
  request.set_until_restart(options.until_restart);
  for (const auto& [key, value] : values) {
    v1::Limit* const limit = request.add_limits();
    limit->set_key(key);
    limit->set_value(value);
  }
  return client.SetLimits(request);
}

// Writes the limits into the folder of a peer that does not run.
absl::StatusOr<OwnMachine> SetLimitsInFolder(const MachineOptions& options,
                                             const std::string& dir) {
  if (options.until_restart) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--until-restart: no daemon runs in ", dir,
        ", so there is nothing that would end; leave the option out to set them for good"));
  }
  ASSIGN_OR_RETURN(const LimitValues values, LimitsOf(options));
  // One that is starting reads the file, and one that runs would write over it.
  ASSIGN_OR_RETURN(const FolderLock lock, FolderLock::Take(dir));
  PosixFiles files;
  const absl::StatusOr<Config> config = ConfigIn(files, dir);
  RETURN_IF_ERROR(KeepLimits(files, dir, config.ok() ? config->machine : MachineConfig(),
                             absl::LocalTimeZone(), values)
                      .status());
  return LookAtFolder(dir);
}

absl::StatusOr<OwnMachine> SetLimits(const MachineOptions& options) {
  ASSIGN_OR_RETURN(const std::string dir, FolderOf(options));
  const absl::StatusOr<MachineClient> client = ClientOf(dir);
  if (!client.ok() && SilentPid(dir) != 0) return NotRunning(dir, client.status());
  if (!client.ok()) return SetLimitsInFolder(options, dir);
  const absl::StatusOr<v1::MachineStatus> status = AskForLimits(*client, options);
  // A killed daemon leaves its socket behind.
  if (absl::IsUnavailable(status.status())) return SetLimitsInFolder(options, dir);
  RETURN_IF_ERROR(status.status());
  return OwnMachine{dir, true, *status, 0};
}

VerbExit PrintLimits(const MachineOptions& options, const absl::StatusOr<OwnMachine>& machine) {
  RETURN_IF_ERROR(machine.status());
  if (machine->status.limits().empty()) {
    return absl::UnavailableError(
        absl::StrCat("no daemon runs in ", machine->dir, ", and it holds no config.toml"));
  }
  return PrintAnswer(options.json, LimitsJson(machine->status), LimitsText(machine->status));
}

VerbExit PrintLimitsSet(const MachineOptions& options) {
  const absl::StatusOr<OwnMachine> machine = SetLimits(options);
  if (machine.ok() && !machine->running) {
    PrintLine(stderr, absl::StrCat("no daemon runs in ", machine->dir,
                                   ": this holds from its next start on"));
  }
  return PrintLimits(options, machine);
}

std::shared_ptr<MachineOptions> AddMachineVerb(CommandLine& command_line, const std::string& path,
                                               const std::string& summary,
                                               const std::string& example,
                                               VerbExit (*action)(const MachineOptions&),
                                               bool takes_time = false) {
  const auto options = std::make_shared<MachineOptions>();
  const Verb verb =
      command_line.AddVerb(path, summary, example, [options, action] { return action(*options); });
  verb.Add("--dir", options->dir,
           "The peer's folder [this one, or the one peer of yours that runs here]")
      .Folder();
  if (takes_time) {
    verb.Add("--for", options->pause_for, "How long, like 3h [until `atoll resume`]");
  }
  if (path == "limits set") {
    verb.Add("LIMIT", options->limits, "KEY=VALUE, as [machine] of the config writes it")
        .Required();
    verb.Flag("--until-restart", options->until_restart, "Forget them when the daemon ends");
  }
  verb.Flag("--json", options->json, "Print as JSON");
  return options;
}

}  // namespace

void AddMachineVerbs(CommandLine& command_line) {
  AddMachineVerb(command_line, "status", "What the peer on this machine does, or why it idles",
                 "atoll status --dir build/quickstart/peer-1",
                 [](const MachineOptions& o) { return PrintMachine(o, LookAtMachine(o)); });
  AddMachineVerb(
      command_line, "pause",
      "Stop training on this machine at once\n"
      "The inner steps under way are lost; an update that is ready is not. The replica follows the "
      "run. It holds over a restart of the daemon.",
      "atoll pause --dir build/quickstart/peer-1 --for 3h", PauseHere, true);
  AddMachineVerb(command_line, "finish", "Finish and contribute the round under way, then pause",
                 "atoll finish --dir build/quickstart/peer-1", FinishHere, true);
  AddMachineVerb(command_line, "resume", "End a pause; the limits stay",
                 "atoll resume --dir build/quickstart/peer-1", ResumeHere);
}

void AddLimitsVerbs(CommandLine& command_line) {
  AddMachineVerb(command_line, "limits show", "What the owner of this machine lends, and when",
                 "atoll limits show --dir build/quickstart/peer-1",
                 [](const MachineOptions& o) { return PrintLimits(o, LookAtMachine(o)); });
  AddMachineVerb(command_line, "limits set",
                 "Change limits, at once or from the daemon's next start\n"
                 "All or none. They are kept in the peer's folder and precede [machine] of the "
                 "config. Where no "
                 "daemon runs they hold from its next start on.",
                 "atoll limits set --dir build/quickstart/peer-1 disk_floor=1GB hotter_than=95",
                 PrintLimitsSet);
}

}  // namespace atolld
