// SlowLines: decides which peers send their updates in the run's slow_codec. These are the peers
// whose lines up carry less than half of what the median line carries.
//
// A round's updates are complete when the slowest of them has arrived. The other peers lose nothing
// by sending in the finer codec, and all peers gain if the slow ones send fewer bytes. A slow peer
// stays slow until its rate exceeds three quarters of the median, so a rate that wavers around the
// bound changes nothing. It also stays slow while its rate is unknown. Pure. Used by one thread.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "membership/planning/link_model.h"

namespace atolld {

class SlowLines {
 public:
  struct Change {
    std::string peer;
    bool slow;
    double rate;    // the rate of its line up
    double median;  // the median of all known lines up
  };
  // Takes the rates of the peers' lines up, in bytes a second, 0 if unknown. Returns the changes.
  std::vector<Change> Update(const std::map<std::string, double>& rates);

  bool Has(const std::string& peer) const { return slow_.count(peer) > 0; }

 private:
  std::set<std::string> slow_;
};

// Sets PeerLink::slow for the contributors that a coordinator would treat as slow if it knew all
// lines.
void MarkSlowLines(LinkModel* links);

}  // namespace atolld
