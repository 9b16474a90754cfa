// ChurnCluster: the processes of one run on this machine, with everything that can be done to them.
//
// Each peer dials the coordinator through a relay of its own and is dialled through another one, so
// that it can be cut off. One fault at a time. What it starts ends with it. One thread; Stop alone
// blocks.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/bench/churn_plan.h"
#include "daemon/bench/relay.h"
#include "daemon/cli/local/local_processes.h"
#include "daemon/cli/local_layout.h"
#include "daemon/config/config.h"
#include "daemon/env/env.h"

namespace atolld {

class ChurnCluster {
 public:
  // Makes `dir` with a folder a process, and the relays. Nothing runs yet.
  static absl::StatusOr<std::unique_ptr<ChurnCluster>> Make(Files& files, const Config& config,
                                                            const std::string& dir,
                                                            const std::string& atolld_program);
  ~ChurnCluster();

  absl::Status StartCoordinator();
  absl::Status StartPeers();
  const LocalLayout& layout() const { return layout_; }
  size_t peers() const { return layout_.processes.size() - 1; }
  const std::string& id(size_t process) const { return layout_.processes[process].id; }

  // Does it. False: there is nobody to do it to (its worker is not there yet).
  bool Strike(const PlannedFault& fault);
  // It is seen in /proc, or at the relay: the process is gone or stopped, the link holds.
  bool HasTakenEffect();
  // Ends it: starts, continues or connects its victim again.
  absl::Status Undo();
  bool struck() const { return struck_.has_value(); }

  // Takes note of who has ended. What was not done to it here is told, and it is started again
  // unless `all_may_end`.
  std::vector<std::string> Poll(bool all_may_end);

  // Peer `process` (from 1): its daemon and its worker run, and its links are open.
  bool Live(size_t process);
  size_t CountLive();
  bool any_peer_running() const { return processes_->any_peer_running(); }
  pid_t pid(size_t process) const { return layout_.processes[process].pid; }

  // Everybody may end: SIGTERM, and SIGKILL after `patience`. Peers first.
  void Stop(absl::Duration patience);

 private:
  struct Links {   // of one peer
    int port = 0;  // where it listens
    std::unique_ptr<Relay> to_coordinator;
    std::unique_ptr<Relay> to_peer;
  };

  ChurnCluster() = default;
  absl::Status Prepare(Files& files, const Config& config, const std::string& dir,
                       const std::string& atolld_program);
  absl::Status Start(size_t process);
  void CutOff(size_t process);
  bool Reachable(size_t process) const;
  pid_t WorkerOf(size_t process);
  std::string OriginOf(int source_port, int relay_port);

  LocalLayout layout_;
  std::mutex pids_mutex_;
  std::vector<pid_t> pids_;   // guarded by pids_mutex_: for the relays' threads
  std::vector<Links> links_;  // by process; the coordinator's are empty
  std::unique_ptr<LocalProcesses> processes_;
  std::vector<pid_t> workers_;  // as last seen
  std::optional<PlannedFault> struck_;
  pid_t struck_pid_ = 0;
};

}  // namespace atolld
