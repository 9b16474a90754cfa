// Relay: a port of the loopback whose connections are forwarded to another port, until it is told
// to become a black hole.
//
// Held bytes are neither lost nor refused: both ends only see silence, as of a cable that was
// pulled, and all flows again after Resume. A port behind that refuses is refused here too: the
// dialler's connection is reset. One thread of its own; Hold and Resume from any thread, and in
// force before they return.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"

namespace atolld {

class Relay {
 public:
  // Names who opened a connection from `source_port` to `relay_port`; called on the relay's thread.
  using Origin = std::function<std::string(int source_port, int relay_port)>;

  // Listens on a free port of 127.0.0.1; connections go to `target_port` there. Without `origin`
  // every connection is nobody's.
  static absl::StatusOr<std::unique_ptr<Relay>> Open(int target_port, Origin origin = nullptr);
  ~Relay();  // every connection is reset
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

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

  Relay(int listener, int wake, int port, int target_port, Origin origin);
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

}  // namespace atolld
