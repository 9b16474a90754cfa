#include "daemon/peer/run_end.h"

#include <gtest/gtest.h>

namespace atolld {
namespace {

struct Told {
  Told() {
    seal.set_run_id("r1");
    seal.set_version(10);
    newest.set_version(10);
    for (const char* peer : {"a", "b", "self"}) newest.add_contributors()->set_peer(peer);
  }
  void Add(const std::string& peer, const std::string& state, uint64_t version) {
    v1::Member* member = roster.add_members();
    member->set_peer(peer);
    member->set_state(state);
    member->set_has_state(true);
    member->set_version(version);
  }
  std::string Line(const std::optional<uint64_t>& held) const {
    return StrandedLine(seal, held, roster, newest, "self", "nobody can be asked");
  }
  v1::Seal seal;
  v1::Roster roster;
  v1::EntryHeader newest;
};

// Broken: its operator would not know whom to start again.
TEST(StrandedTest, ItNamesWhatIsMissingAndWhoHadIt) {
  Told told;
  told.Add("a", "left", 10);
  told.Add("b", "dead", 10);
  told.Add("c", "live", 9);
  told.Add("self", "live", 10);
  EXPECT_EQ(
      told.Line(7),
      "run r1 is over, sealed at version 10; this replica holds version 7 and lacks entries 8 to "
      "10, and nobody gives it (nobody can be asked). It was at a (left), b (dead): start "
      "one that has it, then this peer again, or take the model from there with `atoll export`");
}

// Broken: after a restart the coordinator knows nothing of peers that it has not met.
TEST(StrandedTest, WhoMadeTheLastEntryHadIt) {
  Told told;
  EXPECT_NE(told.Line(9).find("lacks entry 10, "), std::string::npos);
  EXPECT_NE(told.Line(9).find("It was at a, b: start"), std::string::npos);
  told.newest.set_version(9);
  EXPECT_NE(told.Line(std::nullopt).find("holds nothing and lacks the state of version 10, "),
            std::string::npos);
  EXPECT_NE(told.Line(9).find("Nobody is known to have had it: "), std::string::npos);
}

}  // namespace
}  // namespace atolld
