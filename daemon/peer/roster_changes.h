// What a new roster tells a peer that the one before did not, as lines for its log.
//
// An operator, or a benchmark, reads there when this peer learned that another one died or came
// back. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "atoll/v1/membership.pb.h"

namespace atolld {

struct RosterChange {
  std::string line;   // "peer p3 is dead"
  bool loss = false;  // somebody is missed: suspect or dead
};

// One change a member whose state differs from what it was, in roster order; never of `self`.
// Somebody who was not listed before counts as changed.
std::vector<RosterChange> RosterChanges(const v1::Roster& before, const v1::Roster& after,
                                        const std::string& self);

}  // namespace atolld
