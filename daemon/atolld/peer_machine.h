// PeerMachine lets the owner of a machine control a peer's daemon. It connects the owner's orders
// and limits (daemon/machine) to the peer, which obeys them, and serves the socket over which the
// owner gives them.
//
// Used on the loop thread, except for the constructor, Load and Start, which block and must be
// called before the loop runs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "daemon/config/config.h"
#include "daemon/env/env.h"
#include "daemon/env/repeated_lines.h"
#include "daemon/env/worker_socket.h"
#include "daemon/machine/owner_control.h"
#include "daemon/machine/sensors.h"
#include "daemon/peer/peer.h"

namespace atolld {

// Returns the number of threads for a worker that may use `per_cent` of the processors of this
// process, at least 1; returns `otherwise` if `per_cent` is 0.
uint32_t ThreadsOf(double per_cent, uint32_t otherwise);

class PeerMachine {
 public:
  // Functions that the daemon's other parts provide; each may be empty. See OwnerControl::Events.
  struct Parts {
    std::function<BytesToday()> bytes_today;
    std::function<void(uint64_t up, uint64_t down)> on_caps;
  };

  // `peer` must outlive this object. `pid` is the id of this process.
  PeerMachine(Env env, const Config& config, uint32_t pid, Peer& peer, Parts parts);

  // Reads the stored orders and limits, and the trace that the peer follows. Call it before the
  // peer and its worker start, because a limit may affect how they start.
  absl::Status Load();
  const MachineConfig& limits() const { return control_.limits(); }
  // See OwnerControl::Configure.
  absl::Status Configure(const MachineConfig& configured) { return control_.Configure(configured); }

  // Makes the peer obey the orders and limits, and opens the socket for new ones. Call it after the
  // peer's Start.
  absl::Status Start();

 private:
  OwnerControl::Events EventsOf(Peer& peer, Parts parts);
  absl::Status FollowTrace();
  absl::Status Listen();
  void WatchSocket();

  const Env env_;
  const std::string dir_;
  const std::string id_;
  RepeatedLines repeated_;
  const uint32_t threads_;  // The setting [worker] threads.
  const AvailabilityConfig availability_;
  Peer& peer_;
  LinuxSensors sensors_;
  OwnerControl control_;
  std::unique_ptr<WorkerSocket> socket_;
  std::unique_ptr<Listener> listener_;
  CallbackGuard guard_;
};

}  // namespace atolld
