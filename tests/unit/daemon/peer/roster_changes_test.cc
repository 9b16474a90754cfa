#include "daemon/peer/roster_changes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

namespace atolld {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

v1::Roster RosterOf(const std::vector<std::pair<std::string, std::string>>& members) {
  v1::Roster roster;
  for (const auto& [peer, state] : members) {
    v1::Member* member = roster.add_members();
    member->set_peer(peer);
    member->set_state(state);
  }
  return roster;
}

std::vector<std::string> Lines(const v1::Roster& before, const v1::Roster& after) {
  std::vector<std::string> lines;
  for (const RosterChange& change : RosterChanges(before, after, "p2")) {
    lines.push_back(change.line);
  }
  return lines;
}

// Broken: a peer's log would not tell when it learned of a death, or repeat it at every roster.
TEST(RosterChanges, EachChangeOfAnotherIsOneLine) {
  const v1::Roster all = RosterOf({{"p1", "live"}, {"p2", "live"}, {"p3", "joining"}});
  EXPECT_THAT(Lines({}, all), ElementsAre("peer p1 is live", "peer p3 is joining"));
  EXPECT_THAT(Lines(all, all), IsEmpty());
  v1::Roster moved = all;  // a version is no change of state
  moved.mutable_members(0)->set_version(9);
  EXPECT_THAT(Lines(all, moved), IsEmpty());
  const v1::Roster fewer = RosterOf({{"p1", "dead"}, {"p2", "suspect"}, {"p3", "live"}});
  EXPECT_THAT(Lines(all, fewer), ElementsAre("peer p1 is dead", "peer p3 is live"));
}

// Broken: a death would be written as calmly as a birth.
TEST(RosterChanges, LossesAreMarked) {
  const v1::Roster after = RosterOf({{"p1", "suspect"}, {"p3", "dead"}, {"p4", "left"}});
  std::vector<bool> losses;
  for (const RosterChange& change : RosterChanges({}, after, "p2")) losses.push_back(change.loss);
  EXPECT_THAT(losses, ElementsAre(true, true, false));
}

}  // namespace
}  // namespace atolld
