// SlowLines: which peers send their updates in the run's slow_codec: those whose lines up carry
// less than half of what the median line does.
//
// A round's updates are over when the slowest has been sent, so the others lose nothing by sending
// in the finer codec, and all gain by the slow ones' sending fewer bytes. Whoever is slow stays so
// up to three quarters of the median, and while nothing is known of its line: a rate that wavers
// round the bound changes nothing. Pure; one thread.
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
    double rate;    // of its line up
    double median;  // of all that are known
  };
  // What the lines up carry, bytes a second; 0: not known. Returns what has changed.
  std::vector<Change> Update(const std::map<std::string, double>& rates);

  bool Has(const std::string& peer) const { return slow_.count(peer) > 0; }

 private:
  std::set<std::string> slow_;
};

// Of these contributors those that a coordinator to which all lines are known would have send so.
void MarkSlowLines(LinkModel* links);

}  // namespace atolld
