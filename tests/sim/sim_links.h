// The simulated links: what one direction between two processes does to the bytes that go over it.
//
// A link has a latency, a jitter and a rate, shared by all calls between the two processes in one
// direction. It may be cut (calls break, dials are refused), held (nothing arrives, nobody is told:
// a one-way cut, a black hole, a clog) or lossy (a lost frame arrives after a retransmission). All
// numbers are drawn from the network's seed. Links stay where they are: a call keeps pointers.
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

struct SimLinkSettings {
  absl::Duration latency = absl::Milliseconds(1);  // one way
  absl::Duration jitter = absl::ZeroDuration();    // a random part of it is added
  double bytes_per_second = std::numeric_limits<double>::infinity();
};

// What a process's own connection to the network does, on all its links together.
struct SimHost {
  double bytes_per_second = std::numeric_limits<double>::infinity();  // up, and as much down
  absl::Duration up_busy_until;
  absl::Duration down_busy_until;
  bool paused = false;
};

struct SimLink {
  std::string from;
  std::string to;
  SimHost* from_host = nullptr;
  SimHost* to_host = nullptr;
  SimLink* back = nullptr;  // the other direction; itself where a process calls itself

  SimLinkSettings settings;
  bool cut = false;
  bool cut_silently = false;  // this direction alone
  bool black_hole = false;
  absl::Duration clogged_until;
  double loss = 0;
  absl::Duration busy_until;
  uint64_t sent = 0;
  uint64_t break_at = std::numeric_limits<uint64_t>::max();  // of `sent`, both directions

  // Since when a probe over it and back would have had no answer; endless if it would.
  absl::Duration silent_since = absl::InfiniteDuration();
  // What has come to a held link, in order: the call, and which of its two ends sent it.
  std::vector<std::pair<std::weak_ptr<SimConnection>, int>> waiting;

  bool Held(absl::Duration now) const { return cut_silently || black_hole || now < clogged_until; }
};

class SimLinks {
 public:
  SimLinks(SimEventQueue& events, uint64_t seed, SimLinkSettings settings)
      : events_(events), settings_(settings), random_(seed) {}

  SimLink& Of(const std::string& from, const std::string& to);  // made when first asked for
  SimHost& Host(const std::string& process) { return hosts_[process]; }
  const std::map<std::string, SimHost>& hosts() const { return hosts_; }
  std::vector<SimLink*> All();
  SimRandom& random() { return random_; }

  // How long until `bytes`, queued behind what link and hosts already carry, have left.
  absl::Duration Reserve(SimLink& link, uint64_t bytes);
  // How long what leaves now takes, if it is not held.
  absl::Duration Delay(const SimLink& link);

  // `side` and all others are cut from each other, also those who come later, until Reconnect.
  void Separate(const std::set<std::string>& side);
  void Reconnect() { separated_.clear(); }
  // No fault is left on it but what its settings say.
  void Heal(SimLink& link);

  // Brings `silent_since` up to date; true if the silence has just begun.
  bool UpdateSilence(SimLink& link);

 private:
  bool Separated(const std::string& a, const std::string& b) const;

  SimEventQueue& events_;
  const SimLinkSettings settings_;

  SimRandom random_;
  std::map<std::string, SimHost> hosts_;
  std::map<std::pair<std::string, std::string>, SimLink> links_;
  std::vector<std::set<std::string>> separated_;
};

}  // namespace atolld
