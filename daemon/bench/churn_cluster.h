// ChurnCluster: the processes of one run on this machine, with everything that can be done to them,
// and Proxy, through which their connections pass so that they can be cut off.
//
// Each peer dials the coordinator through a proxy of its own and is dialled through another one.
// One fault at a time. What it starts ends with it. One thread; Stop alone blocks.
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

// A port of the loopback whose connections are forwarded to another port, until it is told to
// become a black hole.
//
// Held bytes are neither lost nor refused: both ends only see silence, as of a cable that was
// pulled, and all flows again after Resume. A port behind that refuses is refused here too: the
// dialler's connection is reset. One thread of its own; Hold and Resume from any thread, and in
// force before they return.
class Proxy {
 public:
  // Names who opened a connection from `source_port` to `proxy_port`; called on the proxy's thread.
  using Origin = std::function<std::string(int source_port, int proxy_port)>;

  // Listens on a free port of 127.0.0.1; connections go to `target_port` there. Without `origin`
  // every connection is nobody's.
  static absl::StatusOr<std::unique_ptr<Proxy>> Open(int target_port, Origin origin = nullptr);
  ~Proxy();  // every connection is reset
  Proxy(const Proxy&) = delete;
  Proxy& operator=(const Proxy&) = delete;

  int port() const { return port_; }
  std::string address() const;  // "127.0.0.1:port"

  // Forwards nothing more, in neither direction, of all connections and of new ones.
  void Hold();
  // The same of those that `origin` has opened or opens.
  void HoldFrom(const std::string& origin);
  // Undoes all holds.
  void Resume();
  bool holding() const;

 private:
  struct Flow {  // bytes on their way in one direction
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
    Flow up;    // client to server
    Flow down;  // server to client
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

  // Guarded by mutex_; the thread holds it but while it polls.
  mutable std::mutex mutex_;
  bool stop_ = false;
  bool hold_all_ = false;
  std::set<std::string> held_origins_;

  std::list<Connection> connections_;  // the thread's
  std::thread thread_;                 // last: it uses all the others
};

// -----------------------------------------------------------------------------------------------

class ChurnCluster {
 public:
  // Makes `dir` with a folder a process, and the proxies. Nothing runs yet.
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
  // It is seen in /proc, or at the proxy: the process is gone or stopped, the link holds.
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
  std::vector<pid_t> pids_;   // guarded by pids_mutex_: for the proxies' threads
  std::vector<Links> links_;  // by process; the coordinator's are empty
  std::unique_ptr<LocalProcesses> processes_;
  std::vector<pid_t> workers_;  // as last seen
  std::optional<PlannedFault> struck_;
  pid_t struck_pid_ = 0;
};

}  // namespace atolld
