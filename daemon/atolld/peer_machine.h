// PeerMachine: the machine that a peer's daemon runs on, for its owner - their orders and limits
// (daemon/machine) tied to the peer that keeps to them, and the socket where they are asked for.
//
// Loop thread, but for Make and Start, which block and come before the loop runs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "daemon/config/config.h"
#include "daemon/env/env.h"
#include "daemon/env/worker_socket.h"
#include "daemon/machine/owner_control.h"
#include "daemon/machine/sensors.h"
#include "daemon/peer/peer.h"

namespace atolld {

// How many threads a worker gets of what this process may have; `per_cent` 0: `otherwise`.
uint32_t ThreadsOf(double per_cent, uint32_t otherwise);

class PeerMachine {
 public:
  // What the daemon's other parts bring, where they are there; see OwnerControl::Events.
  struct Parts {
    std::function<BytesToday()> bytes_today;
    std::function<void(uint64_t up, uint64_t down)> on_caps;
  };

  // `peer` outlives it. `pid`: this process.
  PeerMachine(Env env, const Config& config, uint32_t pid, Peer& peer, Parts parts);

  // What was kept of orders and limits, and the trace that it follows. Before the peer and its
  // worker are made ready, since a limit may say how.
  absl::Status Load();
  const MachineConfig& limits() const { return control_.limits(); }
  // See OwnerControl::Configure.
  absl::Status Configure(const MachineConfig& configured) { return control_.Configure(configured); }

  // After the peer's Start: it keeps to them from now on, and their owner is heard.
  absl::Status Start();

 private:
  OwnerControl::Events EventsOf(Peer& peer, Parts parts);
  absl::Status FollowTrace();

  const Env env_;
  const std::string dir_;
  const std::string id_;
  const uint32_t threads_;  // [worker] threads
  const AvailabilityConfig availability_;
  Peer& peer_;
  LinuxSensors sensors_;
  OwnerControl control_;
  std::unique_ptr<WorkerSocket> socket_;
  std::unique_ptr<Listener> listener_;
  CallbackGuard guard_;
};

}  // namespace atolld
