#include "daemon/cli/local_layout.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <system_error>
#include <variant>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/types/span.h"
#include "compression/base/status_macros.h"
#include "daemon/config/config_text.h"
#include "daemon/config/peer_path.h"
#include "daemon/env/posix_folder_lock.h"
#include "daemon/identity/credentials.h"
#include "daemon/program/addresses.h"
#include "daemon/program/format.h"

namespace atolld {
namespace {

constexpr uint64_t kLargestPeersFile = 16 << 20;

LocalProcess Process(const std::string& dir, const std::string& id, const std::string& role,
                     const std::string& atolld_program) {
  LocalProcess process;
  process.id = id;
  process.role = role;
  process.dir = absl::StrCat(dir, "/", id);
  process.command = {atolld_program, role, "--config", absl::StrCat(process.dir, "/config.toml")};
  return process;
}

// Returns the number of a peer, 1 for "peer-1".
int NumberOf(const LocalProcess& peer) {
  int number = 0;
  return absl::SimpleAtoi(peer.id.substr(peer.id.rfind('-') + 1), &number) ? number : 1;
}

// Returns the config of one process: the run's own, with this process's values.
Config ConfigOf(const Config& run, const LocalProcess& process) {
  Config config = run;
  config.coordinator = Config::Coordinator();
  config.coordinator.address = DialledHere(run.coordinator);
  config.coordinator.aggregator = run.coordinator.aggregator;
  config.coordinator.aggregator_address = run.coordinator.aggregator_address;
  const Config::Peer defaults;
  config.peer.id = defaults.id;
  config.peer.dir = defaults.dir;
  config.peer.listen = defaults.listen;
  config.peer.advertise = defaults.advertise;
  if (process.role == "peer") {
    config.http = Config::Http();  // one port cannot be everybody's: it is the coordinator's
    config.tracking = Config().tracking;
    const Config::Peer addresses = LocalPeerAddresses(run.peer, NumberOf(process));
    config.peer.listen = addresses.listen;
    config.peer.advertise = addresses.advertise;
    config.peer.id = process.id;
    config.peer.dir = process.dir;
    const auto number = static_cast<uint32_t>(NumberOf(process));
    config.data.path = PathOfPeer(run.data.path, number);
    config.parties.first = run.parties.first + (number - 1) * run.parties.hosted;
  } else {
    static_cast<StoreConfig&>(config.coordinator) = run.coordinator;
    config.coordinator.others.clear();  // a local run has one
    config.coordinator.dir = process.dir;
    config.coordinator.address = run.coordinator.address;
    config.coordinator.listen = run.coordinator.listen;
  }
  return config;
}

// Makes paths within the run's folder relative to the config's folder, because both are moved
// together.
void MakeMovable(const std::string& run_dir, const std::string& config_dir, Config* config) {
  for (const ConfigField& field : ConfigFields(*config)) {
    const Text* text = std::get_if<Text>(&field.value);
    if (text == nullptr) continue;
    if (text->form != TextForm::kPath && text->form != TextForm::kPathOrUri) continue;
    if (!absl::StartsWith(*text->at, absl::StrCat(run_dir, "/"))) continue;
    *text->at = std::filesystem::path(*text->at).lexically_relative(config_dir).string();
  }
}

// Makes all identities at once, so that no process has to ask another for its own.
absl::Status MakeIdentities(Files& files, const Config& config, const LocalLayout& layout) {
  const absl::Time now = absl::Now();
  std::random_device device;
  const auto random = [&device] { return uint64_t{device()} << 32 | device(); };
  ASSIGN_OR_RETURN(const std::unique_ptr<Authority> authority,
                   OpenCluster(files, layout.coordinator().dir, config.run.id, now, random));
  for (const LocalProcess& process : layout.processes) {
    if (process.role != "peer") continue;
    RETURN_IF_ERROR(EnsureCredentials(files, *authority,
                                      absl::StrCat(process.dir, "/", kIdentityFolder), Role::kPeer,
                                      process.id, now));
  }
  return absl::OkStatus();
}

absl::Status Fill(Files& files, const Config& config, const LocalLayout& layout,
                  const AdjustConfig& adjust) {
  for (const LocalProcess& process : layout.processes) {
    RETURN_IF_ERROR(files.MakeDirectories(process.dir));
    Config own = ConfigOf(config, process);
    if (adjust) adjust(process, &own);
    MakeMovable(layout.dir, process.dir, &own);
    RETURN_IF_ERROR(WriteFileDurably(files, absl::StrCat(process.dir, "/config.toml"),
                                     BytesOf(FormatConfig(own))));
  }
  return config.network.plaintext ? absl::OkStatus() : MakeIdentities(files, config, layout);
}

// Cleans up after a failure, before any process has run; what cannot be removed stays.
void TakeAway(const LocalLayout& layout, bool made_dir) {
  std::error_code error;
  for (const LocalProcess& process : layout.processes) {
    std::filesystem::remove_all(process.dir, error);
  }
  if (made_dir) std::filesystem::remove(layout.dir, error);  // only if it is empty now
}

// Returns a line of a config without the comment after its key.
absl::string_view WithoutMeaning(absl::string_view line) {
  return line.substr(0, line.find("  # "));
}

// Compares the process's config in the folder with the one that it would be given today. Both are
// compared in printed form, so that everything that a reader sees counts. If `takes_peers` is true,
// the peers' own listening addresses are accepted.
absl::Status CheckSameConfig(const Config& run, const LocalProcess& process, bool takes_peers,
                             const AdjustConfig& adjust) {
  const std::string path = absl::StrCat(process.dir, "/config.toml");
  const bool peer = process.role == "peer";
  ASSIGN_OR_RETURN(const Config there,
                   LoadConfig(path, peer ? ConfigUse::kPeer : ConfigUse::kCoordinator));
  Config wanted = ConfigOf(run, process);
  if (adjust) adjust(process, &wanted);
  if (takes_peers) {
    wanted.peer.listen = there.peer.listen;
    wanted.peer.advertise = there.peer.advertise;
  }
  const std::string& own_dir = peer ? there.peer.dir : there.coordinator.dir;
  std::error_code error;
  if (own_dir != process.dir && !std::filesystem::equivalent(own_dir, process.dir, error)) {
    return absl::FailedPreconditionError(absl::StrCat(
        path, " names [", process.role, "] dir ", own_dir, " and lies in ", process.dir,
        ": the run was moved. Set dir = \".\" there and in the configs beside it, or move it "
        "back"));
  }
  (peer ? wanted.peer.dir : wanted.coordinator.dir) = own_dir;
  wanted.run.id = there.run.id;
  const std::vector<std::string> old_lines = absl::StrSplit(FormatConfig(there), '\n');
  const std::vector<std::string> new_lines = absl::StrSplit(FormatConfig(wanted), '\n');
  for (size_t i = 0; i < std::min(old_lines.size(), new_lines.size()); ++i) {
    if (old_lines[i] == new_lines[i]) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        path, " has `", WithoutMeaning(old_lines[i]), "`, and this call `",
        WithoutMeaning(new_lines[i]),
        "`: to go on with the run, give what it has; for a new run, give another --dir"));
  }
  return absl::OkStatus();
}

std::string ListenedOn(const Config::Coordinator& coordinator) {
  return coordinator.listen.empty() ? coordinator.address : coordinator.listen;
}

// Returns the run's config. If it does not name the coordinator's addresses, they come from the
// run's folder.
absl::StatusOr<Config> SettledAsBefore(const Config& run, const LocalProcess& coordinator) {
  Config settled = run;
  if (NamesCoordinator(run)) return settled;
  ASSIGN_OR_RETURN(const Config there, LoadConfig(absl::StrCat(coordinator.dir, "/config.toml"),
                                                  ConfigUse::kCoordinator));
  settled.coordinator.address = there.coordinator.address;
  settled.coordinator.listen = there.coordinator.listen;
  return settled;
}

}  // namespace

absl::Status CheckNewFolder(Files& files, const std::string& dir) {
  if (!files.Exists(dir)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::vector<std::string> names, files.List(dir));
  const auto holds = [&](const char* name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  const bool prepared = holds(kRunConfig) && holds(kRunBranch);
  for (const std::string& name : names) {
    if (name == kPeersFile) {
      return absl::AlreadyExistsError(absl::StrCat(dir, " holds another run; give another --dir"));
    }
    if (name == kLockFile) continue;
    if (prepared && (name == kRunConfig || name == kRunBranch)) continue;
    return absl::AlreadyExistsError(
        absl::StrCat(dir, " is not empty: it holds ", name, "; give another --dir"));
  }
  return absl::OkStatus();
}

absl::StatusOr<int> FreeLoopbackPort(int wanted) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return absl::UnknownError(absl::StrCat("socket: ", std::strerror(errno)));
  const int on = 1;  // a port whose last connections are still closing is free
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(wanted));
  socklen_t length = sizeof address;
  const bool bound = bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
                     listen(fd, 1) == 0 &&
                     getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) == 0;
  const int error = errno;
  close(fd);
  if (bound) return ntohs(address.sin_port);
  if (error == EADDRINUSE) {
    return absl::FailedPreconditionError(absl::StrCat(
        "port ", wanted, " of 127.0.0.1 is in use; leave out --port to get a free one"));
  }
  return absl::UnknownError(absl::StrCat("127.0.0.1:", wanted, ": ", std::strerror(error)));
}

absl::StatusOr<LocalLayout> MakeLocalLayout(Files& files, const Config& config,
                                            const std::string& dir, int port,
                                            const std::string& atolld_program,
                                            const AdjustConfig& adjust, uint32_t peers) {
  RETURN_IF_ERROR(CheckNewFolder(files, dir));
  LocalLayout layout;
  layout.dir = dir;
  const bool made_dir = !files.Exists(dir);
  Config settled = config;
  if (port != 0) {
    settled.coordinator.address = absl::StrCat("127.0.0.1:", port);
    settled.coordinator.listen.clear();
  }
  layout.processes.push_back(Process(dir, "coordinator", "coordinator", atolld_program));
  layout.processes.back().address = DialledHere(settled.coordinator);
  layout.advertised = settled.coordinator.address;
  layout.listened = ListenedOn(settled.coordinator);
  for (uint32_t i = 1; i <= std::max(config.run.peers, peers); ++i) {
    layout.processes.push_back(Process(dir, absl::StrCat("peer-", i), "peer", atolld_program));
  }
  const absl::Status filled = Fill(files, settled, layout, adjust);
  if (!filled.ok()) {
    TakeAway(layout, made_dir);
    return filled;
  }
  return layout;
}

absl::Status WriteRunConfig(Files& files, const std::string& dir, const Config& config) {
  Config movable = config;
  MakeMovable(dir, dir, &movable);
  return WriteFileDurably(files, absl::StrCat(dir, "/", kRunConfig),
                          BytesOf(FormatConfig(movable)));
}

absl::StatusOr<LocalLayout> OpenLocalLayout(Files& files, const Config& config,
                                            const std::string& dir,
                                            const std::string& atolld_program,
                                            const AdjustConfig& adjust) {
  ASSIGN_OR_RETURN(const std::vector<LocalProcess> former, ReadPeersFile(files, dir));
  LocalLayout layout;
  layout.dir = dir;
  for (const LocalProcess& process : former) {
    layout.processes.push_back(Process(dir, process.id, process.role, atolld_program));
    LocalProcess& own = layout.processes.back();
    if (process.role == "coordinator") own.address = process.address;
    own.pid = HolderOf(own.dir).value_or(0);
  }
  if (layout.processes.empty() || layout.coordinator().role != "coordinator") {
    return absl::DataLossError(absl::StrCat(dir, "/", kPeersFile, " names no coordinator first"));
  }
  ASSIGN_OR_RETURN(const Config settled, SettledAsBefore(config, layout.coordinator()));
  layout.advertised = settled.coordinator.address;
  layout.listened = ListenedOn(settled.coordinator);
  const Config::Peer defaults;
  const bool takes_peers =
      config.peer.listen == defaults.listen && config.peer.advertise == defaults.advertise;
  for (const LocalProcess& process : layout.processes) {
    RETURN_IF_ERROR(CheckSameConfig(settled, process, takes_peers, adjust));
  }
  return layout;
}

absl::Status WritePeersFile(Files& files, const LocalLayout& layout) {
  const auto in_dir = [prefix = absl::StrCat(layout.dir, "/")](absl::string_view path) {
    absl::ConsumePrefix(&path, prefix);
    return std::string(path);
  };
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const LocalProcess& process : layout.processes) {
    std::vector<std::string> command;
    for (const std::string& word : process.command) command.push_back(in_dir(word));
    json.push_back({{"id", process.id},
                    {"role", process.role},
                    {"pid", process.pid},
                    {"dir", in_dir(process.dir)},
                    {"address", process.address},
                    {"command", ShellCommand(command)}});
  }
  const std::string text =
      json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  return WriteFileDurably(files, absl::StrCat(layout.dir, "/", kPeersFile), BytesOf(text + "\n"));
}

absl::StatusOr<std::vector<LocalProcess>> ReadPeersFile(Files& files, const std::string& dir) {
  const std::string path = absl::StrCat(dir, "/", kPeersFile);
  if (!files.Exists(path)) {
    return absl::NotFoundError(absl::StrCat(dir, " holds no local run: there is no ", kPeersFile));
  }
  ASSIGN_OR_RETURN(const std::string text, ReadFile(files, path, kLargestPeersFile));
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  const absl::Status damaged = absl::DataLossError(absl::StrCat(path, " is damaged"));
  if (!json.is_array()) return damaged;
  std::vector<LocalProcess> processes;
  for (const nlohmann::json& one : json) {
    if (!one.is_object()) return damaged;
    for (const char* key : {"id", "role", "dir", "address"}) {
      if (!one.contains(key) || !one[key].is_string()) return damaged;
    }
    if (!one.contains("pid") || !one["pid"].is_number_integer()) return damaged;
    LocalProcess process;
    process.id = one["id"].get<std::string>();
    process.role = one["role"].get<std::string>();
    // Earlier releases wrote absolute paths; what lies in `dir` counts, not what they remember.
    const std::filesystem::path folder = one["dir"].get<std::string>();
    process.dir = absl::StrCat(dir, "/", folder.is_absolute() ? process.id : folder.string());
    process.address = one["address"].get<std::string>();
    process.pid = one["pid"].get<pid_t>();
    processes.push_back(std::move(process));
  }
  return processes;
}

absl::StatusOr<LocalProcess> FindCoordinator(Files& files, const std::string& dir) {
  ASSIGN_OR_RETURN(const std::vector<LocalProcess> processes, ReadPeersFile(files, dir));
  for (const LocalProcess& process : processes) {
    if (process.role == "coordinator") return process;
  }
  return absl::DataLossError(absl::StrCat(dir, "/", kPeersFile, " names no coordinator"));
}

CoordinatorAccess AccessOf(Files& files, const LocalProcess& coordinator) {
  const std::string admin = absl::StrCat(coordinator.dir, "/", kAdminFolder);
  return {coordinator.address, files.Exists(admin) ? admin : ""};
}

}  // namespace atolld
