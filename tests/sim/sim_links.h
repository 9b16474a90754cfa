// The simulated links. A link is one direction between two processes.
//
// A link has a latency, a jitter and a rate, shared by all calls between the two processes in one
// direction. It may be cut (calls break, dials are refused), held (nothing arrives and no error is
// reported: a one-way cut, a black hole, a clog), pass only small packets, or lose frames (a lost
// frame arrives after a retransmission). All numbers are drawn from the network's seed. Links have
// stable addresses: a call keeps pointers to them.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "tests/sim/sim_events.h"

namespace atolld {

class SimConnection;

// The largest frame that fits in a packet if a tunnel on the way silently drops longer ones.
inline constexpr uint64_t kSimSmallFrame = 1300;

struct SimLinkSettings {
  absl::Duration latency = absl::Milliseconds(1);  // In one direction.
  absl::Duration jitter = absl::ZeroDuration();    // A random part of it is added.
  double bytes_per_second = std::numeric_limits<double>::infinity();
};

// A process's own connection to the network, shared by all its links.
struct SimHost {
  // for each direction
  double bytes_per_second = std::numeric_limits<double>::infinity();
  absl::Duration up_busy_until;
  absl::Duration down_busy_until;
  bool paused = false;
  bool hidden = false;  // true if a firewall drops what arrives at its port; its own dials work
};

struct SimLink {
  std::string from;
  std::string to;
  SimHost* from_host = nullptr;
  SimHost* to_host = nullptr;
  SimLink* back = nullptr;  // the other direction; the link itself if a process calls itself

  SimLinkSettings settings;
  bool cut = false;
  bool cut_silently = false;  // only this direction is cut
  bool black_hole = false;
  bool small_only = false;  // true if frames above kSimSmallFrame do not get through
  absl::Duration clogged_until;
  double loss = 0;
  absl::Duration busy_until;
  uint64_t sent = 0;
  // Calls break when `sent` reaches this value. Used for both directions.
  uint64_t break_at = std::numeric_limits<uint64_t>::max();

  // The time since which a probe over this link and back would have had no answer; InfiniteDuration
  // if it would have an answer.
  absl::Duration silent_since = absl::InfiniteDuration();
  // The time since which a frame has been too large for the link; InfiniteDuration if there was no
  // such frame since the link was healed.
  absl::Duration stuck_since = absl::InfiniteDuration();
  // The pieces that have arrived at a held link, in order. Each is given by its call and the end
  // that sent it.
  std::vector<std::pair<std::weak_ptr<SimConnection>, int>> waiting;

  bool Held(absl::Duration now) const { return cut_silently || black_hole || now < clogged_until; }
};

class SimLinks {
 public:
  SimLinks(SimEventQueue& events, uint64_t seed, SimLinkSettings settings)
      : events_(events), settings_(settings), random_(seed) {}

  // Returns the link, which is created when it is first asked for.
  SimLink& Of(const std::string& from, const std::string& to);
  SimHost& Host(const std::string& process) { return hosts_[process]; }
  const std::map<std::string, SimHost>& hosts() const { return hosts_; }
  std::vector<SimLink*> All();
  SimRandom& random() { return random_; }

  // Changes the link's settings. A faster link is free sooner of what it has taken, but each frame
  // on its way still arrives at the time that it was given.
  void Set(SimLink& link, const SimLinkSettings& settings);
  void SetRate(SimHost& host, double bytes_per_second);  // Changes the rate of a host's own line in
                                                         // the same way.
  // Queues `bytes` behind what the link and the hosts already carry, and returns how long it takes
  // until they have been sent.
  absl::Duration Reserve(SimLink& link, uint64_t bytes);
  // Returns how long a frame that is sent now takes to arrive, if the link is not held.
  absl::Duration Delay(const SimLink& link);

  // Cuts `side` and all others from each other, including processes that are added later, until
  // Reconnect.
  void Separate(const std::set<std::string>& side);
  void Reconnect() { separated_.clear(); }
  // Ends all faults of the link except those in its settings.
  void Heal(SimLink& link);
  void ShowAll();  // Ends the hiding of all processes.

  // Updates `silent_since`; returns true if the silence has just begun.
  bool UpdateSilence(SimLink& link);

 private:
  absl::Duration Sooner(absl::Duration busy_until, double before, double after) const;
  bool Separated(const std::string& a, const std::string& b) const;

  SimEventQueue& events_;
  const SimLinkSettings settings_;

  SimRandom random_;
  std::map<std::string, SimHost> hosts_;
  std::map<std::pair<std::string, std::string>, SimLink> links_;
  std::vector<std::set<std::string>> separated_;
};

}  // namespace atolld
