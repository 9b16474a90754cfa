// The folder of a local run: a folder and a config for each process, and peers.json, which lists
// the processes.
//
//   DIR/config.toml            the run's config with the options of the first call, with which
//                              `atoll local --dir DIR` continues
//   DIR/branch                 only if the run branches from another: its file (branch_file.h)
//   DIR/peers.json             the list of processes
//   DIR/<name>/config.toml     the config of a process: "coordinator", "peer-1", ...
//   DIR/<name>/log.txt         its log
//   DIR/<name>/identity/       its credentials
//   DIR/coordinator/authority/ the authority that has signed all credentials
//   DIR/coordinator/admin/     the operator's credentials
//   DIR/lock                   held by the process that works on the run (posix_folder_lock.h)
//
// On disk, paths within DIR are relative: in a config they start at the config's folder, and in
// peers.json at DIR. So the run can continue after DIR was moved, and the commands in peers.json
// must be typed in DIR. In memory every path is absolute.
//
// A folder that holds anything else is never touched. Nothing that a process has written is ever
// removed, because it may explain what happened and the run may continue from it.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/config/config.h"
#include "daemon/env/env.h"
#include "daemon/transport/coordinator_client.h"

namespace atolld {

inline constexpr char kPeersFile[] = "peers.json";
inline constexpr char kRunConfig[] = "config.toml";
inline constexpr char kRunBranch[] = "branch";

struct LocalProcess {
  std::string id;
  std::string role;  // "coordinator" or "peer"
  pid_t pid = 0;     // 0 if the process does not run
  std::string dir;
  std::string address;  // empty until it is known
  std::vector<std::string> command;
};

struct LocalLayout {
  std::string dir;
  // The coordinator's address in tokens, and the address on which it listens. This machine dials
  // coordinator().address.
  std::string advertised, listened;
  std::vector<LocalProcess> processes;  // the coordinator first

  const LocalProcess& coordinator() const { return processes.front(); }
};

// Returns a TCP port on 127.0.0.1 that nothing is listening on: `wanted`, or any free port if
// `wanted` is 0. Fails with FAILED_PRECONDITION if `wanted` is not 0 and is taken.
absl::StatusOr<int> FreeLoopbackPort(int wanted);

// Fails with ALREADY_EXISTS if `dir` holds anything but a lock and the files of a run that has not
// begun (its config and branch file). The message names what it holds.
absl::Status CheckNewFolder(Files& files, const std::string& dir);

// Makes `dir` (absolute) and everything in it for one coordinator and config.run.peers peers, all
// of which run `atolld_program`. If `peers` is larger, makes that many peers, so that some can be
// started later. The coordinator's address is 127.0.0.1:`port`, or the address in [coordinator] if
// `port` is 0. "{peer}" in config.data.path is replaced by a peer's number (peer_path.h), and the
// virtual parties of a peer follow those of the peer before it. `adjust` may change the config of a
// process before it is written. Fails with ALREADY_EXISTS if the folder is not empty. On an error
// nothing is left in `dir`.
using AdjustConfig = std::function<void(const LocalProcess& process, Config* config)>;
absl::StatusOr<LocalLayout> MakeLocalLayout(Files& files, const Config& config,
                                            const std::string& dir, int port,
                                            const std::string& atolld_program,
                                            const AdjustConfig& adjust = nullptr,
                                            uint32_t peers = 0);

// Writes the run's config to the folder, which must exist.
absl::Status WriteRunConfig(Files& files, const std::string& dir, const Config& config);

// Opens the run in `dir`, to continue it. The pid of a process is 0 if it does not run. Fails with
// NOT_FOUND if there is no run. Fails with INVALID_ARGUMENT if `config`, after `adjust` and apart
// from the run id, differs from the configs of the run's processes; the message names the first
// line that differs. Fails with FAILED_PRECONDITION if a config written by an earlier release has
// absolute paths and `dir` was moved since.
absl::StatusOr<LocalLayout> OpenLocalLayout(Files& files, const Config& config,
                                            const std::string& dir,
                                            const std::string& atolld_program,
                                            const AdjustConfig& adjust = nullptr);

// Writes peers.json. At every instant the file is complete or does not exist.
absl::Status WritePeersFile(Files& files, const LocalLayout& layout);

// Reads peers.json and makes its paths absolute, starting at `dir`. Fails with NOT_FOUND if `dir`
// holds no local run, and with DATA_LOSS if the file is damaged.
absl::StatusOr<std::vector<LocalProcess>> ReadPeersFile(Files& files, const std::string& dir);
absl::StatusOr<LocalProcess> FindCoordinator(Files& files, const std::string& dir);

// Returns the address and the credentials with which an administrator reaches the coordinator of a
// local run.
CoordinatorAccess AccessOf(Files& files, const LocalProcess& coordinator);

}  // namespace atolld
