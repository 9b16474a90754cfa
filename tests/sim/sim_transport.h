// The simulated network: calls and listeners over the links between processes, and each process's
// view of them as a Transport.
//
// Frames of a call keep their order; those of different calls may overtake each other. A call's
// window bounds what is on the wire or unread at the other end, so that a receiver that does not
// read holds its sender back. A broken link or a dead process shows as UNAVAILABLE after the
// latency; a held link shows as nothing at all, until the keepalive finds it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "daemon/env/env.h"
#include "tests/sim/sim_connection.h"
#include "tests/sim/sim_events.h"
#include "tests/sim/sim_links.h"
#include "tests/sim/sim_replay.h"

namespace atolld {

struct SimNetworkSettings {
  SimLinkSettings link;  // between processes for which SetLink was not called
  uint64_t window_bytes = uint64_t{256} << 10;  // of a call, one direction
  // A call whose other end a probe could not have reached for so long breaks at both ends, as over
  // gRPC with keepalive: production breaks it after 1.5 x failure_timeout. Endless: never.
  absl::Duration keepalive = absl::InfiniteDuration();
};

class SimNetwork : private SimConnection::Network {
 public:
  using Methods = std::function<bool(const std::string& method)>;

  SimNetwork(SimEventQueue& events, uint64_t seed, SimNetworkSettings settings);
  // Both directions, unless said otherwise.
  void SetLink(const std::string& a, const std::string& b, SimLinkSettings settings);
  void SetLinkOneWay(const std::string& from, const std::string& to, SimLinkSettings settings);
  // The process's own connection, shared by all it sends; and by all that it receives.
  void SetPeerRate(const std::string& process, double bytes_per_second);

  void CutLink(const std::string& a, const std::string& b);  // breaks its calls, refuses new ones
  void HealLink(const std::string& a, const std::string& b);
  // Cuts every link between a process in `side` and one that is not, also of processes to come.
  void Partition(const std::set<std::string>& side);
  void BreakCalls(const std::string& a, const std::string& b);  // the link stays usable
  // As BreakCalls, once `bytes` more have gone over the link.
  void BreakCallsAfter(const std::string& a, const std::string& b, uint64_t bytes);

  // Held: nothing is lost and nobody is told; it arrives after the healing. New calls hang too.
  void CutOneWay(const std::string& from, const std::string& to);
  void HealOneWay(const std::string& from, const std::string& to);
  void BlackHole(const std::string& a, const std::string& b);
  void HealBlackHole(const std::string& a, const std::string& b);
  void Clog(const std::string& a, const std::string& b, absl::Duration duration);  // heals itself
  // A lost frame comes 200 to 1000 ms late, and so do those behind it on its call.
  void SetLoss(const std::string& a, const std::string& b, double probability);

  // A call of such a method is, with this probability, made again some time after it has ended:
  // with its first frames, `frames` at most, its answers unread by anybody; a while later it
  // breaks.
  void ReplayCalls(double probability, Methods methods, size_t frames = 8);

  // Ends every fault of every link, and the replays; or only those of the links among `core`. What
  // SetLink and SetPeerRate said stays.
  void HealAll();
  void HealAmong(const std::set<std::string>& core);

  // Nothing that the process of this life does from now on has an effect: it is about to be
  // dropped.
  void Silence(SimEventQueue::Owner owner);
  // The process of this life is dead: its listeners and its ends of calls are gone.
  void DropProcess(SimEventQueue::Owner owner);
  void SetPaused(const std::string& process, bool paused);  // it does not answer probes

  void SetIdentity(const std::string& process, Identity identity);  // without one: plain text
  void RefuseKeys(const std::string& process, const std::set<std::string>& keys) {
    refused_[process] = keys;
  }
  uint64_t bytes_sent(const std::string& from, const std::string& to);
  size_t open_calls() const;
  uint64_t replayed_calls() const { return replays_; }
  // The most that any one call has had queued at once.
  uint64_t max_unsent_bytes() const { return max_unsent_; }

 private:
  friend class SimListener;
  friend class SimTransport;
  struct ListenerState {
    std::string process;
    SimEventQueue::Owner owner;
    Transport::Acceptor acceptor;
  };
  using Listeners = std::map<std::string, std::shared_ptr<ListenerState>>;

  SimEventQueue& events() override { return events_; }
  SimLinks& links() override { return links_; }
  uint64_t window_bytes() const override { return settings_.window_bytes; }
  uint64_t Add(SimConnection* connection) override;
  void Remove(uint64_t serial) override { connections_.erase(serial); }
  void OnQueued(uint64_t bytes) override { max_unsent_ = std::max(max_unsent_, bytes); }
  void OnSent(SimLink& link, uint64_t bytes) override;
  void OnRecorded(SimRecordedCall call) override;

  std::shared_ptr<SimConnection> Connect(const std::string& process, SimEventQueue::Owner owner,
                                         const std::string& address, const std::string& method);
  void Accept(const std::shared_ptr<SimConnection>& connection,
              const std::weak_ptr<ListenerState>& listener);
  void Changed(SimLink& link);  // one of its faults: lets go what waits, watches the silence
  void WatchSilence(SimLink& link);
  void BreakSilent(SimLink& link);
  void Record(SimConnection& connection);
  void Replay(const SimRecordedCall& call);
  std::vector<std::shared_ptr<SimConnection>> Connections() const;  // in the order of dialling

  SimEventQueue& events_;
  const SimNetworkSettings settings_;
  SimLinks links_;
  int next_port_ = 40000;
  uint64_t max_unsent_ = 0;
  Listeners listeners_;                                   // by address
  std::map<std::string, std::string> homes_;              // of an address: who listened there last
  std::map<std::string, Identity> identities_;            // by process
  std::map<std::string, std::set<std::string>> refused_;  // keys, by the process that dials
  std::set<SimEventQueue::Owner> silenced_;
  std::vector<std::shared_ptr<ListenerState>> doomed_;  // of the silenced, until they are dropped
  uint64_t serials_ = 0;
  std::map<uint64_t, SimConnection*> connections_;  // all there are
  SimRandom replay_random_;  // apart, so that a replay more does not change the delays' draws
  double replay_probability_ = 0;
  Methods replay_methods_;
  size_t replay_frames_ = 0;
  uint64_t replays_ = 0;
};

// One life's view of the network. An address is any text; "name:0" gets a port of its own.
class SimTransport final : public Transport {
 public:
  SimTransport(SimNetwork& network, std::string process, SimEventQueue::Owner owner);

  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address,
                                                   Acceptor acceptor) override;
  std::unique_ptr<Call> Dial(const std::string& address, const std::string& method,
                             absl::Duration deadline) override;
  void RefuseKeys(const std::set<std::string>& keys) override {
    network_.RefuseKeys(process_, keys);
  }

 private:
  SimNetwork& network_;
  const std::string process_;
  const SimEventQueue::Owner owner_;
};

}  // namespace atolld
