#include "daemon/peer/roster_changes.h"

#include <map>

#include "absl/strings/str_cat.h"

namespace atolld {

std::vector<RosterChange> RosterChanges(const v1::Roster& before, const v1::Roster& after,
                                        const std::string& self) {
  std::map<std::string, std::string> states;
  for (const v1::Member& member : before.members()) states[member.peer()] = member.state();
  std::vector<RosterChange> changes;
  for (const v1::Member& member : after.members()) {
    const auto former = states.find(member.peer());
    if (member.peer() == self || (former != states.end() && former->second == member.state())) {
      continue;
    }
    changes.push_back({absl::StrCat("peer ", member.peer(), " is ", member.state()),
                       member.state() == "suspect" || member.state() == "dead"});
  }
  return changes;
}

}  // namespace atolld
