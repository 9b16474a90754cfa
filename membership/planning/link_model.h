// LinkModel: a model of a network: each peer's own line up and down, the links that the peers of a
// region share, and the round trips.
//
// Every region has a middle with unlimited capacity. Data from peer i to peer j passes over i's own
// line, the links between the middles of the two regions, and j's own line. Rates are limited only
// by lines and links, and round trips consist only of delays. A value type. Used by one thread.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace atolld {

struct PeerLink {
  std::string name;
  size_t region = 0;
  double up = 0;         // in bytes a second; must be above 0
  double down = 0;       // in bytes a second; must be above 0
  absl::Duration delay;  // the one-way delay to the middle of the peer's region
  // False if the peer can only dial out; it then neither reduces nor relays.
  bool reachable = true;
  bool contributes = true;  // false for an aggregator, which only reduces
  // True if the line had spare capacity when it was measured: other peers were waited for, not this
  // one. The real rates may then be higher.
  bool had_room = false;
  bool slow = false;  // true if the peer sends its updates in slow_codec
};

// One direction of a link between two regions.
struct RegionLink {
  std::string name;  // such as "eu>us"
  size_t from = 0;
  size_t to = 0;
  double rate = 0;  // in bytes a second
  absl::Duration delay;
};

class LinkModel {
 public:
  // Adds a region and returns its number, counted from 0. `close` is true if its peers are near
  // each other, so that one of them may average for all.
  size_t AddRegion(std::string name, bool close = true);
  void AddPeer(PeerLink peer);  // the peer's region must have been added
  void SetSlow(size_t peer, bool slow) { peers_[peer].slow = slow; }
  // Adds a link in both directions, numbered 2k and 2k + 1. All traffic between the two regions
  // shares it.
  void AddLink(size_t a, size_t b, double bytes_per_second, absl::Duration rtt);
  void AddLink(size_t a, size_t b, double forth, double back, absl::Duration rtt);
  // SetCoordinator sets the coordinator's place in the network. If only the longest round trip to
  // the coordinator is known, call SetCoordinatorRtt instead.
  void SetCoordinator(PeerLink node);
  void SetCoordinatorRtt(absl::Duration longest) { coordinator_rtt_ = longest; }

  // Adds an aggregator beside the coordinator, on the coordinator's line. Called at most once,
  // after SetCoordinator.
  void AddAggregator();

  // Finds the route between every two regions: the one with the least delay and, among equals, with
  // the fewest links. Must be called once, after everything was added. Fails with INVALID_ARGUMENT
  // if there is no route between two regions; the message names them.
  absl::Status Connect();
  // An alternative to Connect for when every two regions have a link of their own: the route
  // between them is that link, even if another route has less delay.
  void ConnectDirectly();

  const std::vector<std::string>& regions() const { return regions_; }
  bool close(size_t region) const { return close_[region]; }
  const std::vector<PeerLink>& peers() const { return peers_; }
  size_t contributors() const;  // the number of peers that contribute
  const std::vector<RegionLink>& links() const { return links_; }

  // Return the links from one region's middle to another's, and the sum of their delays. Connect
  // must have been called.
  const std::vector<size_t>& Route(size_t from, size_t to) const { return routes_[from][to].links; }
  absl::Duration Delay(size_t from, size_t to) const { return routes_[from][to].delay; }
  // The slowest rate of all peers' lines and all links, in bytes a second.
  double SlowestRate() const;
  // The longest round trip between a peer and the coordinator.
  absl::Duration CoordinatorRtt() const;

 private:
  struct Way {
    std::vector<size_t> links;
    absl::Duration delay;
  };
  std::vector<Way> WaysFrom(size_t start) const;

  std::vector<std::string> regions_;
  std::vector<bool> close_;
  std::vector<PeerLink> peers_;
  std::vector<RegionLink> links_;
  PeerLink coordinator_;
  std::optional<absl::Duration> coordinator_rtt_;
  std::vector<std::vector<Way>> routes_;
};

// Returns a network of one region with `peers` equal peers. Each has a line of this rate in both
// directions, and a round trip of `rtt` to every other.
LinkModel EqualPeers(uint32_t peers, double bytes_per_second, absl::Duration rtt);

}  // namespace atolld
