// ChurnCluster runs the processes of one run on this machine, and applies faults to them. Their
// connections pass through a Proxy, so that they can be cut off.
//
// Each peer dials the coordinator through a proxy of its own, and other peers dial it through
// another proxy. Only one fault is applied at a time. All processes end when the ChurnCluster is
// destroyed. Used by one thread; only Stop blocks.
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/bench/churn_faults.h"
#include "daemon/cli/local/local_processes.h"
#include "daemon/cli/local_layout.h"
#include "daemon/config/config.h"
#include "daemon/env/env.h"

namespace atolld {

// A port on loopback that forwards its connections to another port, and that can hold them back.
//
// Bytes that are held back are not lost: both ends only see silence, as if a cable had been pulled,
// and the bytes are forwarded after Resume. If the other port refuses a connection, the proxy
// resets the client's connection. The proxy has a thread of its own. Hold and Resume may be called
// from any thread, and have taken effect when they return.
class Proxy {
 public:
  // Returns the name of the process that has opened a connection from `source_port` to
  // `proxy_port`. Called on the proxy's thread.
  using Origin = std::function<std::string(int source_port, int proxy_port)>;

  // Listens on a free port of 127.0.0.1; connections are forwarded to `target_port` of the same
  // address. If `origin` is null, HoldFrom has no effect.
  static absl::StatusOr<std::unique_ptr<Proxy>> Open(int target_port, Origin origin = nullptr);
  ~Proxy();  // Resets every connection.
  Proxy(const Proxy&) = delete;
  Proxy& operator=(const Proxy&) = delete;

  int port() const { return port_; }
  std::string address() const;  // Returns "127.0.0.1:PORT".

  // Stops forwarding in both directions on all present and new connections.
  void Hold();
  // Does the same, but only for the connections that the process `origin` has opened or will open.
  void HoldFrom(const std::string& origin);
  // Undoes all calls of Hold and HoldFrom.
  void Resume();
  bool holding() const;

 private:
  struct Flow {  // The bytes on their way in one direction.
    std::vector<char> buffer;
    size_t begin = 0;
    size_t end = 0;
    bool source_ended = false;
    bool sink_ended = false;
    bool empty() const { return begin == end; }
  };
  struct Connection {
    int client = -1;
    int server = -1;
    std::string origin;
    bool connecting = true;
    bool broken = false;
    Flow up;    // From client to server.
    Flow down;  // From server to client.
  };

  Proxy(int listener, int wake, int port, int target_port, Origin origin);
  void Run();
  bool Held(const Connection& connection) const;
  void Accept();
  void Serve(Connection* connection, short client_events, short server_events);
  static bool Pump(Flow* flow, int from, int to);
  static void Abort(Connection* connection);
  void Change(const std::function<void()>& change);

  const int listener_;
  const int wake_;
  const int port_;
  const int target_port_;
  const Origin origin_;

  // Guarded by mutex_, which the thread holds except while it polls.
  mutable std::mutex mutex_;
  bool stop_ = false;
  bool hold_all_ = false;
  std::set<std::string> held_origins_;

  std::list<Connection> connections_;  // Only used by the thread.
  std::thread thread_;                 // The last member, because it uses all the others.
};

// -----------------------------------------------------------------------------------------------

class ChurnCluster {
 public:
  // Makes the folder `dir`, with a folder for each process, and the proxies. Starts no process.
  static absl::StatusOr<std::unique_ptr<ChurnCluster>> Make(Files& files, const Config& config,
                                                            const std::string& dir,
                                                            const std::string& atolld_program);
  ~ChurnCluster();

  absl::Status StartCoordinator();
  absl::Status StartPeers();
  const LocalLayout& layout() const { return layout_; }
  size_t peers() const { return layout_.processes.size() - 1; }
  const std::string& id(size_t process) const { return layout_.processes[process].id; }

  // Applies the fault. Returns false if the victim does not exist, because the peer's worker does
  // not run yet.
  bool Strike(const PlannedFault& fault);
  // Returns true if the effect of the fault is visible: the process has ended or is stopped (by
  // /proc), or its proxies hold its connections.
  bool HasTakenEffect();
  // Ends the fault: starts the victim again, continues it, or reconnects it.
  absl::Status Undo();

  // Checks which processes have ended. Returns a line for each process that has ended without a
  // fault, and starts it again unless `all_may_end` is true.
  std::vector<std::string> Poll(bool all_may_end);

  // Returns true if the daemon and the worker of a peer run and its connections are not held. Peers
  // are the processes from number 1 on.
  bool Live(size_t process);
  size_t CountLive();
  bool any_peer_running() const { return processes_->any_peer_running(); }
  pid_t pid(size_t process) const { return layout_.processes[process].pid; }

  // Ends all processes, peers first: sends SIGTERM, and SIGKILL after `patience`.
  void Stop(absl::Duration patience);

 private:
  struct Links {   // The proxies of one peer.
    int port = 0;  // The port on which the peer listens.
    std::unique_ptr<Proxy> to_coordinator;
    std::unique_ptr<Proxy> to_peer;
  };

  ChurnCluster() = default;
  absl::Status Prepare(Files& files, const Config& config, const std::string& dir,
                       const std::string& atolld_program);
  absl::Status Start(size_t process);
  void CutOff(size_t process);
  bool Reachable(size_t process) const;
  pid_t WorkerOf(size_t process);
  std::string OriginOf(int source_port, int proxy_port);

  LocalLayout layout_;
  std::mutex pids_mutex_;
  std::vector<pid_t> pids_;   // Guarded by pids_mutex_, because the proxies' threads read it.
  std::vector<Links> links_;  // One element for each process; that of the coordinator is empty.
  std::unique_ptr<LocalProcesses> processes_;
  std::vector<pid_t> workers_;  // The workers that were found last.
  std::optional<PlannedFault> struck_;
  pid_t struck_pid_ = 0;
};

}  // namespace atolld
