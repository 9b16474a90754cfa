// Would break: machines of two releases cannot be in one run, so that an upgrade stops it.
#include "membership/run/release.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "membership/run/admission.h"
#include "membership/trust/contribution.h"
#include "tests/unit/membership/run/simulated_peers.h"

namespace atolld {
namespace {

TEST(ReleaseTest, NumbersAreReadAndWhatIsNoneOfOursCountsAsOfToday) {
  EXPECT_LT(*ParseRelease("0.1.0"), *ParseRelease("0.2.0"));
  EXPECT_LT(*ParseRelease("0.9.9"), *ParseRelease("0.10.0"));
  EXPECT_LT(*ParseRelease("0.10.0"), *ParseRelease("1.0.0-rc1"));
  for (const char* other :
       {"", "1", "1.2", "1.2.3.4", "a.b.c", "1.2.x", "1..2", "-1.0.0", "books"}) {
    EXPECT_FALSE(ParseRelease(other)) << other;
    EXPECT_TRUE(FollowsChanges(other)) << other;
  }
  EXPECT_FALSE(FollowsChanges("0.1.0"));
  EXPECT_TRUE(FollowsChanges("0.2.0"));
  EXPECT_TRUE(FollowsChanges("0.2.0~deb12"));
}

// Would break: a peer of an earlier release would train as in mode "sync" in a run of another mode.
TEST(ReleaseTest, ARunWithAModeRefusesAPeerThatKnowsNone) {
  v1::RunSpec spec;
  spec.set_run_id("r1");
  v1::Hello old;
  old.set_peer("p1");
  old.set_software("0.1.0");
  EXPECT_TRUE(CheckHello(spec, old).ok()) << CheckHello(spec, old);
  spec.mutable_mode()->set_kind("async");
  EXPECT_EQ(CheckHello(spec, old).message(),
            "peer p1 runs release 0.1.0, which knows no modes; the run is in mode 'async'; install "
            "a newer release there");
  for (const char* today : {"0.2.0", ""}) {
    old.set_software(today);
    EXPECT_TRUE(CheckHello(spec, old).ok()) << today;
  }
}

// Release 0.1.0 knows no changes of a roster and no brief plans: it passes the first over, and
// takes the second for a plan of those contributors alone.
TEST(ReleaseTest, APeerOfAnEarlierReleaseIsToldRostersAndPlansWhole) {
  SimulatedPeers peers(3, 2);
  const auto join = [&peers](const std::string& peer, const std::string& software) {
    v1::Hello hello = peers.MakeHello(peer);
    hello.set_software(software);
    peers.Join(peer, &hello);
    peers.WorkerReady(peer);
  };
  join("old", "0.1.0");
  join("new", "0.2.0");
  join("other", "0.2.0");
  const auto count = [&peers](const std::string& peer, auto has) {
    const auto& heard = peers.inbox[peer];
    return std::count_if(heard.begin(), heard.end(), [&](const auto& m) { return (m.*has)(); });
  };
  EXPECT_EQ(count("old", &v1::CoordinatorMessage::has_roster_delta), 0);
  EXPECT_GE(count("old", &v1::CoordinatorMessage::has_roster), 3) << "whole, at each change";
  EXPECT_EQ(count("new", &v1::CoordinatorMessage::has_roster), 1);
  EXPECT_GE(count("new", &v1::CoordinatorMessage::has_roster_delta), 1);
  EXPECT_EQ(peers.rosters.at("old").SerializeAsString(),
            peers.rosters.at("new").SerializeAsString());

  for (const char* peer : {"old", "new", "other"}) peers.Break(peer);
  peers.Clear();
  for (const char* peer : {"old", "new", "other"}) join(peer, "0.1.0");
  EXPECT_EQ(count("new", &v1::CoordinatorMessage::has_roster_delta), 0)
      << "it came back as the older release that it was before";
}

// The plans of a first exchange, of four peers of which nobody can dial the last, so that it
// reduces nothing; `old` names a peer of release 0.1.0, or nobody.
std::map<std::string, v1::Plan> PlansWith(const std::string& old) {
  const std::vector<std::string> names = {"a", "b", "c", "d"};
  SimulatedPeers peers(4, 3);
  for (const std::string& peer : names) {
    v1::Hello hello = peers.MakeHello(peer);
    hello.set_software(peer == old ? "0.1.0" : "0.2.0");
    if (peer == names.back()) hello.clear_address();
    peers.Join(peer, &hello);
    peers.WorkerReady(peer);
  }
  peers.InitialState("a");
  for (const std::string& peer : names) peers.Synced(peer, 0);
  for (const std::string& peer : names) peers.Evaluate(peer);
  for (const std::string& peer : names) peers.Ready(peer);
  std::map<std::string, v1::Plan> plans;
  for (const std::string& peer : names) {
    if (peers.Plan(peer) != nullptr) plans[peer] = *peers.Plan(peer);
  }
  return plans;
}

TEST(ReleaseTest, APeerOfAnEarlierReleaseIsToldNoPlanInBrief) {
  const auto today = PlansWith("");
  ASSERT_EQ(today.size(), 4u);
  const auto brief = std::find_if(today.begin(), today.end(),
                                  [](const auto& told) { return IsBrief(told.second); });
  ASSERT_NE(brief, today.end()) << "somebody serves nobody, else this shows nothing";
  const v1::Plan whole = PlansWith(brief->first)[brief->first];
  EXPECT_FALSE(IsBrief(whole));
  EXPECT_EQ(whole.contributors_size(), 4);
}

}  // namespace
}  // namespace atolld
