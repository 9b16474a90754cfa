// The folder of a local run: one folder and config a process, and peers.json, which lists the
// processes.
//
//   DIR/peers.json    DIR/coordinator/config.toml    DIR/peer-1/config.toml    ...
//   DIR/<name>/log.txt      DIR/<name>/identity/: its credentials
//   DIR/coordinator/authority/, DIR/coordinator/admin/: what signed them, and the operator's own
//
// A folder that holds anything is never touched. What was made can be taken away again, and nothing
// else is.
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

struct LocalProcess {
  std::string id;
  std::string role;  // "coordinator" or "peer"
  pid_t pid = 0;     // 0: not started yet
  std::string dir;
  std::string address;  // empty: not known yet
  std::vector<std::string> command;
};

struct LocalLayout {
  std::string dir;
  bool made_dir = false;                // it was not there before
  std::vector<LocalProcess> processes;  // the coordinator first

  const LocalProcess& coordinator() const { return processes.front(); }
};

// A TCP port of the loopback that nobody listens on. FAILED_PRECONDITION if `wanted` is not 0 and
// is taken.
absl::StatusOr<int> FreeLoopbackPort(int wanted);

// Makes `dir` (absolute) and everything in it for one coordinator at 127.0.0.1:`port` and
// config.run.peers peers, which `atolld_program` will run. ALREADY_EXISTS if the folder is not
// empty. On an error nothing is left behind.
// `adjust` may change a process's config before it is written.
using AdjustConfig = std::function<void(const LocalProcess& process, Config* config)>;
absl::StatusOr<LocalLayout> MakeLocalLayout(Files& files, const Config& config,
                                            const std::string& dir, int port,
                                            const std::string& atolld_program,
                                            const AdjustConfig& adjust = nullptr);

// Takes away what MakeLocalLayout made and the processes wrote.
void RemoveLocalLayout(const LocalLayout& layout);

// The file is there whole or not at all.
absl::Status WritePeersFile(Files& files, const LocalLayout& layout);

// NOT_FOUND: `dir` holds no local run. DATA_LOSS: the file is damaged.
absl::StatusOr<std::vector<LocalProcess>> ReadPeersFile(Files& files, const std::string& dir);
absl::StatusOr<LocalProcess> FindCoordinator(Files& files, const std::string& dir);

// How an administrator speaks to the coordinator of a local run.
CoordinatorAccess AccessOf(Files& files, const LocalProcess& coordinator);

}  // namespace atolld
