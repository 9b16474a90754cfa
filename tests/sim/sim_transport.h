// The simulated network: links between processes, listeners, and each process's view of them as a
// Transport.
//
// A link has a latency, a jitter and a rate, shared by all calls between the two processes in one
// direction; frames of a call keep their order. A call's window bounds what is on the wire or
// unread at the other end, so that a receiver that does not read holds its sender back. A broken
// link or a dead process shows as UNAVAILABLE after the latency.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "daemon/env.h"
#include "tests/sim/sim_executor.h"

namespace atolld {

class SimConnection;

struct SimLinkSettings {
  absl::Duration latency = absl::Milliseconds(1);  // one way
  absl::Duration jitter = absl::ZeroDuration();    // a random part of it is added
  double bytes_per_second = std::numeric_limits<double>::infinity();
};

struct SimNetworkSettings {
  SimLinkSettings link;  // between processes for which SetLink was not called
  uint64_t window_bytes = uint64_t{256} << 10;  // of a call, one direction
};

// on_writable is called when unsent_bytes() falls to this or below.
inline constexpr size_t kSimLowWaterBytes = size_t{256} << 10;

class SimNetwork {
 public:
  SimNetwork(SimEventQueue& events, uint64_t seed, SimNetworkSettings settings);

  // All of these mean both directions.
  void SetLink(const std::string& a, const std::string& b, SimLinkSettings settings);
  void CutLink(const std::string& a, const std::string& b);  // breaks its calls, refuses new ones
  void HealLink(const std::string& a, const std::string& b);
  void BreakCalls(const std::string& a, const std::string& b);  // the link stays usable
  // As BreakCalls, once `bytes` more have gone over the link.
  void BreakCallsAfter(const std::string& a, const std::string& b, uint64_t bytes);

  // The process of this life is dead: its listeners and its ends of calls are gone.
  void DropProcess(SimEventQueue::Owner owner);

  uint64_t bytes_sent(const std::string& from, const std::string& to);
  size_t open_calls();
  // The most that any one call has had queued at once.
  uint64_t max_unsent_bytes() const { return max_unsent_; }

 private:
  friend class SimConnection;
  friend class SimListener;
  friend class SimTransport;

  struct Link {
    SimLinkSettings settings;
    bool cut = false;
    absl::Duration busy_until;
    uint64_t sent = 0;
    uint64_t break_at = std::numeric_limits<uint64_t>::max();  // of `sent`, both directions
  };
  struct ListenerState {
    std::string process;
    SimEventQueue::Owner owner;
    Transport::Acceptor acceptor;
  };

  Link& LinkOf(const std::string& from, const std::string& to);
  absl::Duration Reserve(const std::string& from, const std::string& to, uint64_t bytes);
  absl::Duration Delay(const std::string& from, const std::string& to);
  void CountSent(const std::string& from, const std::string& to, uint64_t bytes);
  void Accept(const std::shared_ptr<SimConnection>& connection,
              const std::weak_ptr<ListenerState>& listener);
  std::vector<std::shared_ptr<SimConnection>> Connections();

  SimEventQueue& events_;
  const SimNetworkSettings settings_;

  SimRandom random_;
  int next_port_ = 40000;
  uint64_t max_unsent_ = 0;
  std::map<std::pair<std::string, std::string>, Link> links_;
  std::map<std::string, std::shared_ptr<ListenerState>> listeners_;  // by address
  std::vector<std::weak_ptr<SimConnection>> connections_;            // in the order of dialling
};

// One life's view of the network. An address is any text; "name:0" gets a port of its own.
class SimTransport final : public Transport {
 public:
  SimTransport(SimNetwork& network, std::string process, SimEventQueue::Owner owner);

  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address,
                                                   Acceptor acceptor) override;
  std::unique_ptr<Call> Dial(const std::string& address, const std::string& method,
                             absl::Duration deadline) override;

 private:
  SimNetwork& network_;
  const std::string process_;
  const SimEventQueue::Owner owner_;
};

}  // namespace atolld
