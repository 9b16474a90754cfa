// The simulated network: calls and listeners over the links between processes. Each process sees it
// as a Transport.
//
// Frames of one call keep their order; those of different calls may overtake each other. A call's
// window limits the bytes that are on the wire or unread at the other end, so a receiver that does
// not read slows its sender down. A broken link or a dead process shows as UNAVAILABLE after the
// latency; a held link does not show at all until the keepalive detects it.
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
  SimLinkSettings link;  // The link between processes for which SetLink was not called.
  uint64_t window_bytes = uint64_t{256} << 10;  // per call and direction
  // A call breaks at both ends if a probe could not have reached its other end for this long, as
  // over gRPC with keepalive; production breaks it after 1.5 x failure_timeout. InfiniteDuration
  // means never.
  absl::Duration keepalive = absl::InfiniteDuration();
};

class SimNetwork : private SimConnection::Network {
 public:
  using Methods = std::function<bool(const std::string& method)>;

  SimNetwork(SimEventQueue& events, uint64_t seed, SimNetworkSettings settings);
  // Sets both directions of the link.
  void SetLink(const std::string& a, const std::string& b, SimLinkSettings settings);
  void SetLinkOneWay(const std::string& from, const std::string& to, SimLinkSettings settings);
  // Sets the rate of the process's own connection, which is shared by all its outgoing links and,
  // separately, by all its incoming links.
  void SetPeerRate(const std::string& process, double bytes_per_second);

  // Breaks all calls over the link and refuses new ones.
  void CutLink(const std::string& a, const std::string& b);
  void HealLink(const std::string& a, const std::string& b);
  // Cuts every link between a process in `side` and one that is not in it, including later
  // processes.
  void Partition(const std::set<std::string>& side);
  void BreakCalls(const std::string& a, const std::string& b);  // The link stays usable.
  // Does the same as BreakCalls once `bytes` more have gone over the link.
  void BreakCallsAfter(const std::string& a, const std::string& b, uint64_t bytes);

  // The next functions hold the link: nothing is lost, no error is reported, and everything arrives
  // after the healing. New calls hang.
  void CutOneWay(const std::string& from, const std::string& to);
  void HealOneWay(const std::string& from, const std::string& to);
  void BlackHole(const std::string& a, const std::string& b);
  void HealBlackHole(const std::string& a, const std::string& b);
  void Clog(const std::string& a, const std::string& b, absl::Duration duration);  // The link heals
                                                                                   // itself.
  // Holds new calls to the process, and all frames that are sent to it over calls that others have
  // dialled. Calls that it dials itself work.
  void Hide(const std::string& process);
  void Show(const std::string& process);
  // Holds frames larger than kSimSmallFrame, in both directions, and all frames behind them in the
  // same calls.
  void PassSmallAlone(const std::string& a, const std::string& b);
  void PassAll(const std::string& a, const std::string& b);
  // Returns the time since which a frame has been too large for the link in either direction, or
  // InfiniteDuration if there is no such frame.
  absl::Duration StuckSince(const std::string& a, const std::string& b);
  // Makes frames get lost: a lost frame arrives 200 to 1000 ms late, and so do those behind it in
  // its call.
  void SetLoss(const std::string& a, const std::string& b, double probability);

  // With this probability a call of one of these methods is made again some time after it has
  // ended, with at most its first `frames` frames. The answers are not read, and the second call
  // breaks a while later.
  void ReplayCalls(double probability, Methods methods, size_t frames = 8);

  // Makes this call now, as if it had been delayed on its way. The answers are not read, and the
  // call breaks a while later.
  void MakeAgain(const SimRecordedCall& call);

  // HealAll ends every fault of every link, and the replays. HealAmong ends only the faults of the
  // links among `core`. The settings of SetLink and SetPeerRate stay.
  void HealAll();
  void HealAmong(const std::set<std::string>& core);

  // From now on nothing that the process does in this life has an effect. The caller drops it soon.
  void Silence(SimEventQueue::Owner owner);
  // Removes a process that has died: the listeners and ends of calls of this life.
  void DropProcess(SimEventQueue::Owner owner);
  // A paused process does not answer probes of the keepalive.
  void SetPaused(const std::string& process, bool paused);

  // Gives the process an identity. Processes without one use plain text.
  void SetIdentity(const std::string& process, Identity identity);
  void RefuseKeys(const std::string& process, const std::set<std::string>& keys) {
    refused_[process] = keys;
  }
  uint64_t bytes_sent(const std::string& from, const std::string& to);
  size_t open_calls() const;
  uint64_t replayed_calls() const { return replays_; }
  // The most bytes that any one call has had queued at once.
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
  absl::Duration keepalive() const override { return settings_.keepalive; }
  uint64_t Add(SimConnection* connection) override;
  void Remove(uint64_t serial) override { connections_.erase(serial); }
  void OnQueued(uint64_t bytes) override { max_unsent_ = std::max(max_unsent_, bytes); }
  void OnSent(SimLink& link, uint64_t bytes) override;
  void OnRecorded(SimRecordedCall call) override;

  std::shared_ptr<SimConnection> Connect(const std::string& process, SimEventQueue::Owner owner,
                                         const std::string& address, const std::string& method);
  void Accept(const std::shared_ptr<SimConnection>& connection,
              const std::weak_ptr<ListenerState>& listener);
  void SetHidden(const std::string& process, bool hidden);
  void SetSmallAlone(const std::string& a, const std::string& b, bool alone);
  // Called when one of the link's faults has changed. Releases waiting pieces and watches the
  // silence.
  void Changed(SimLink& link);
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
  Listeners listeners_;                         // by address
  std::map<std::string, std::string> homes_;    // The last process that listened at each address.
  std::map<std::string, Identity> identities_;  // by process
  std::map<std::string, std::set<std::string>> refused_;  // the refused keys, by the process that
                                                          // dials
  std::set<SimEventQueue::Owner> silenced_;
  // The listeners of silenced processes, until they are dropped.
  std::vector<std::shared_ptr<ListenerState>> doomed_;
  uint64_t serials_ = 0;
  std::map<uint64_t, SimConnection*> connections_;  // all connections
  // This generator is separate so that an additional replay does not change the draws of the
  // delays.
  SimRandom replay_random_;
  double replay_probability_ = 0;
  Methods replay_methods_;
  size_t replay_frames_ = 0;
  uint64_t replays_ = 0;
};

// The view of the network that one life of a process has. Any text can be an address; "name:0" gets
// an unused port.
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
