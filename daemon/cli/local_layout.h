// The folder of a local run: one folder and config a process, and peers.json, which lists the
// processes.
//
//   DIR/config.toml   the run's config as it was begun, with what the command line gave: with it
//                     `atoll local --dir DIR` goes on
//   DIR/branch        of a run that branches from another: its branch file (branch_file.h)
//   DIR/peers.json    DIR/coordinator/config.toml    DIR/peer-1/config.toml    ...
//   DIR/<name>/log.txt      DIR/<name>/identity/: its credentials
//   DIR/coordinator/authority/, DIR/coordinator/admin/: what signed them, and the operator's own
//
//   DIR/lock        who works on the run (daemon/env/posix_folder_lock.h)
//
// All that names something within DIR is relative on disk: in a config to the config's own folder,
// in peers.json to DIR. So the run goes on wherever DIR is moved to, and the commands in peers.json
// are typed in DIR. In memory every path is absolute.
//
// A folder that holds anything else is never touched, and nothing that a process has written is
// ever taken away: it may explain what happened, and the run may go on from it.
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
  pid_t pid = 0;     // 0: it does not run
  std::string dir;
  std::string address;  // empty: not known yet
  std::vector<std::string> command;
};

struct LocalLayout {
  std::string dir;
  // The coordinator's: what tokens hand out, and what it listens on. Its process's address is what
  // this machine dials.
  std::string advertised, listened;
  std::vector<LocalProcess> processes;  // the coordinator first

  const LocalProcess& coordinator() const { return processes.front(); }
};

// A TCP port of the loopback that nobody listens on. FAILED_PRECONDITION if `wanted` is not 0 and
// is taken.
absl::StatusOr<int> FreeLoopbackPort(int wanted);

// ALREADY_EXISTS: `dir` holds something that is no lock, and what. A run that is prepared there
// and has not begun, config and branch file, is none.
absl::Status CheckNewFolder(Files& files, const std::string& dir);

// Makes `dir` (absolute) and everything in it for one coordinator at 127.0.0.1:`port` (0: where the
// config's [coordinator] says) and config.run.peers peers, which `atolld_program` will run;
// with `peers` above that, for so many, of which some may be started later. A peer's own data is
// where config.data.path says for its number (peer_path.h), and the virtual parties that it hosts
// follow those of the peer before. ALREADY_EXISTS if the folder is not empty. On an error nothing
// is left behind. `adjust` may change a process's config before it is written.
using AdjustConfig = std::function<void(const LocalProcess& process, Config* config)>;
absl::StatusOr<LocalLayout> MakeLocalLayout(Files& files, const Config& config,
                                            const std::string& dir, int port,
                                            const std::string& atolld_program,
                                            const AdjustConfig& adjust = nullptr,
                                            uint32_t peers = 0);

// Writes the run's config to the folder, which is there.
absl::Status WriteRunConfig(Files& files, const std::string& dir, const Config& config);

// The run that `dir` holds already, to go on with it: a process that runs has its pid, any other 0.
// NOT_FOUND: none. INVALID_ARGUMENT, with the first line that differs: `config` (its run id aside)
// is not what the run's processes have, `adjust` counted in. FAILED_PRECONDITION: a config of an
// earlier release, with absolute paths, and `dir` was moved since.
absl::StatusOr<LocalLayout> OpenLocalLayout(Files& files, const Config& config,
                                            const std::string& dir,
                                            const std::string& atolld_program,
                                            const AdjustConfig& adjust = nullptr);

// The file is there whole or not at all.
absl::Status WritePeersFile(Files& files, const LocalLayout& layout);

// Every folder as it lies in `dir` now. NOT_FOUND: `dir` holds no local run. DATA_LOSS: the file is
// damaged.
absl::StatusOr<std::vector<LocalProcess>> ReadPeersFile(Files& files, const std::string& dir);
absl::StatusOr<LocalProcess> FindCoordinator(Files& files, const std::string& dir);

// How an administrator speaks to the coordinator of a local run.
CoordinatorAccess AccessOf(Files& files, const LocalProcess& coordinator);

}  // namespace atolld
