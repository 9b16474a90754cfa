#include "daemon/peer/giver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace atolld {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

void Add(const std::string& peer, const std::string& address, bool has_state, v1::Roster* roster) {
  v1::Member* const member = roster->add_members();
  member->set_peer(peer);
  member->set_address(address);
  member->set_state("live");
  member->set_has_state(has_state);
}

// Would break: a state that only peers behind NAT hold is lost to all others.
TEST(Giver, OffersToThoseThatCanBeDialled) {
  v1::Roster roster;
  Add("a", "", true, &roster);
  Add("b", "b:1", false, &roster);
  Add("c", "", false, &roster);
  Add("d", "d:1", true, &roster);
  EXPECT_THAT(GivesTo(roster, "a"), ElementsAre("b:1", "d:1"));
  EXPECT_THAT(GivesTo(roster, "b"), IsEmpty());  // others dial it
  EXPECT_THAT(GivesTo(roster, "c"), IsEmpty());  // it has nothing
  roster.mutable_members(1)->set_state("dead");
  EXPECT_THAT(GivesTo(roster, "a"), ElementsAre("d:1"));
}

// Would break: a crowd behind NAT opens calls by the square of its number.
TEST(Giver, FewOfferThemselvesToEachAndEachToFew) {
  v1::Roster crowd;
  for (int i = 10; i < 40; ++i) Add(absl::StrCat("n", i), "", true, &crowd);
  Add("x", "x:1", true, &crowd);
  size_t offers = 0;
  for (int i = 10; i < 40; ++i) offers += GivesTo(crowd, absl::StrCat("n", i)).size();
  EXPECT_EQ(offers, 4u);
  v1::Roster reachable;
  for (int i = 10; i < 40; ++i)
    Add(absl::StrCat("r", i), absl::StrCat("r", i, ":1"), true, &reachable);
  Add("n", "", true, &reachable);
  EXPECT_THAT(GivesTo(reachable, "n"), SizeIs(8));
  EXPECT_THAT(GivesTo(reachable, "n"), Contains("r10:1"));
}

}  // namespace
}  // namespace atolld
