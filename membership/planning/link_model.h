// LinkModel: what is known of a network: each peer's own line up and down, the links that regions
// share, and the round trips.
//
// Every region has a middle that carries everything. What peer i sends to peer j goes over i's own
// line, the links between the two regions' middles, and j's own line. Only lines limit rates, only
// delays make round trips. Values; one thread.
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
  double up = 0;            // bytes a second, above 0
  double down = 0;          // bytes a second, above 0
  absl::Duration delay;     // one way, to its region's middle
  bool reachable = true;    // false: it dials out alone, so it neither reduces nor relays
  bool contributes = true;  // false: an aggregator, which reduces and nothing else
  bool had_room = false;    // its rates are what was asked of it while others were waited for
  bool slow = false;        // it sends its updates in the codec of slow lines
};

// One direction.
struct RegionLink {
  std::string name;  // "eu>us"
  size_t from = 0;
  size_t to = 0;
  double rate = 0;  // bytes a second
  absl::Duration delay;
};

class LinkModel {
 public:
  // Its number, from 0. `close`: its peers are near each other, so that one may average for all.
  size_t AddRegion(std::string name, bool close = true);
  void AddPeer(PeerLink peer);  // of a region that was added
  void SetSlow(size_t peer, bool slow) { peers_[peer].slow = slow; }
  // Both directions, shared by all that passes: the links numbered 2k and 2k + 1.
  void AddLink(size_t a, size_t b, double bytes_per_second, absl::Duration rtt);
  void AddLink(size_t a, size_t b, double forth, double back, absl::Duration rtt);
  // Where the coordinator is; or, where that is all that is known, the longest round trip to it.
  void SetCoordinator(PeerLink node);
  void SetCoordinatorRtt(absl::Duration longest) { coordinator_rtt_ = longest; }

  // Beside the coordinator, on its line; once, after SetCoordinator.
  void AddAggregator();

  // Finds between each two regions the way of the least delay, of equals that of the fewest links;
  // once, after all was added. INVALID_ARGUMENT names two regions between which no link leads.
  absl::Status Connect();
  // Instead, where every two regions have a link of their own: the way between them is that link,
  // whatever the delays of others.
  void ConnectDirectly();

  const std::vector<std::string>& regions() const { return regions_; }
  bool close(size_t region) const { return close_[region]; }
  const std::vector<PeerLink>& peers() const { return peers_; }
  size_t contributors() const;  // of the peers
  const std::vector<RegionLink>& links() const { return links_; }

  // After Connect: the links from one region's middle to another's, and their delay together.
  const std::vector<size_t>& Route(size_t from, size_t to) const { return routes_[from][to].links; }
  absl::Duration Delay(size_t from, size_t to) const { return routes_[from][to].delay; }
  // Of all lines of peers and all links, bytes a second.
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

// One region of equal peers, each with a line of that rate both ways; `rtt` between two of them.
LinkModel EqualPeers(uint32_t peers, double bytes_per_second, absl::Duration rtt);

}  // namespace atolld
