// Who cannot reach whom, and how the run lives with it.
#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/membership/run/simulated_peers.h"

namespace atolld {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

void Tell(SimulatedPeers& peers, const std::string& from, const std::string& to, bool answers) {
  v1::PeerMessage message;
  message.mutable_reached()->set_peer(to);
  message.mutable_reached()->set_answers(answers);
  message.mutable_reached()->set_reason(answers ? "" : "no answer");
  peers.Say(from, message);
}

std::set<std::string> ReducersOfRound(SimulatedPeers& peers,
                                      const std::vector<std::string>& names) {
  for (const std::string& peer : names) peers.Ready(peer);
  std::set<std::string> reducers;
  for (const v1::Shard& shard : peers.WholePlan("a")->shards()) reducers.insert(shard.reducer());
  for (const std::string& peer : names) peers.Vote(peer);
  return reducers;
}

const std::string& WhyOf(const v1::RunStatus& status, const std::string& peer) {
  const auto found = std::find_if(status.peers().begin(), status.peers().end(),
                                  [&](const auto& one) { return one.member().peer() == peer; });
  return found->why();
}

// Would break: one volunteer's firewall stops the run, again after each eight rounds, and nobody is
// told whose it is.
TEST(RunReach, APortThatNobodyReachesIsPlannedAroundAsLongAsThatIsTrue) {
  SimulatedPeers peers(4, 2, 40);
  const std::vector<std::string> names = {"a", "b", "c", "d"};
  peers.Begin(names);
  Tell(peers, "b", "a", false);
  peers.Probed("a", ProbeResult::kSilent, "a:1");
  EXPECT_TRUE(peers.rosters["b"].members(0).unreachable());
  v1::RunStatus status = peers.run->Status(peers.now);
  ASSERT_EQ(status.doubts_size(), 2);
  EXPECT_EQ(status.doubts(0).from(), "");
  EXPECT_EQ(status.doubts(1).from(), "b");
  EXPECT_THAT(WhyOf(status, "a"), HasSubstr("others cannot dial a:1"));
  for (int round = 0; round < 12; ++round) {
    EXPECT_THAT(ReducersOfRound(peers, names), Not(Contains("a"))) << round;
    Tell(peers, "b", "a", false);
    peers.Tick(absl::Seconds(5));
    peers.Probed("a", ProbeResult::kSilent, "a:1");
  }
  EXPECT_EQ(peers.run->version(), 12u);
  Tell(peers, "b", "a", true);
  peers.Probed("a", ProbeResult::kAnswered, "a:1");
  EXPECT_FALSE(peers.rosters["b"].members(0).unreachable());
  EXPECT_THAT(ReducersOfRound(peers, names), Contains("a"));
  status = peers.run->Status(peers.now);
  EXPECT_EQ(status.doubts_size(), 0);
  EXPECT_EQ(WhyOf(status, "a"), "");
}

// Would break: two that do not see each other cost each round a deadline; or a doubt of a process
// that is gone counts against the next one.
TEST(RunReach, APairIsForgottenWithItsProcessesAndNoSooner) {
  SimulatedPeers peers(4, 2, 40);
  const std::vector<std::string> names = {"a", "b", "c", "d"};
  peers.Begin(names);
  Tell(peers, "b", "c", false);
  EXPECT_THAT(peers.probes, Contains("c")) << "the coordinator's own dial tells whose fault it is";
  EXPECT_FALSE(peers.rosters["a"].members(2).unreachable()) << "one word is not enough";
  EXPECT_THAT(ReducersOfRound(peers, names), ElementsAre("a", "d"));
  EXPECT_THAT(WhyOf(peers.run->Status(peers.now), "b"), HasSubstr("it alone cannot reach c"));
  peers.Die("b");
  EXPECT_EQ(peers.run->Status(peers.now).doubts_size(), 0);
}

// Would break: the coordinator learns of a closed port when a round needs it.
TEST(RunReach, TheCoordinatorDialsBackFromTimeToTime) {
  SimulatedPeers peers(2, 2);
  peers.Begin({"a", "b"});
  peers.Clear();
  peers.Tick(absl::Seconds(70));
  EXPECT_THAT(peers.probes, UnorderedElementsAre("a", "b"));
  peers.Probed("b", ProbeResult::kSilent, "b:1");
  peers.Clear();
  peers.Tick(absl::Seconds(30));
  EXPECT_GE(std::count(peers.probes.begin(), peers.probes.end(), "b"), 2) << "more often";
  EXPECT_EQ(std::count(peers.probes.begin(), peers.probes.end(), "a"), 0);
}

// Would break: a peer whose doubts end with its process stays marked as one that no peer can dial,
// so that peers that only dial out never offer it what it lacks.
TEST(RunReach, AnotherProcessIsNotMarkedForTheDoubtsOfTheOneBefore) {
  SimulatedPeers peers(4, 2, 40);
  peers.Begin({"a", "b", "c", "d"});
  for (const char* to : {"a", "d"}) {
    Tell(peers, "b", to, false);
    Tell(peers, to[0] == 'a' ? "d" : "a", to, false);
  }
  const auto marked = [&peers] {
    std::set<std::string> names;
    const v1::RunStatus status = peers.run->Status(peers.now);
    for (const v1::PeerStatus& peer : status.peers()) {
      if (peer.member().unreachable()) names.insert(peer.member().peer());
    }
    return names;
  };
  ASSERT_EQ(marked(), (std::set<std::string>{"a", "d"}));
  v1::Hello other = peers.MakeHello("a");
  other.set_instance(99);
  peers.Join("a", &other);
  EXPECT_TRUE(marked().empty()) << "nor is d, which one peer alone doubts now";
  for (const char* from : {"a", "b"}) Tell(peers, from, "c", false);
  ASSERT_EQ(marked(), std::set<std::string>{"c"});
  const v1::Hello same = peers.MakeHello("c");
  peers.Break("c");
  peers.Probed("c", ProbeResult::kRefused, "c:1");
  ASSERT_EQ(peers.StateOf("c"), "dead");
  EXPECT_TRUE(marked().empty()) << "nobody dials it";
  peers.Join("c", &same);
  EXPECT_EQ(marked(), std::set<std::string>{"c"}) << "the same process, at the same address";
  for (const char* from : {"a", "b"}) Tell(peers, from, "c", true);
  EXPECT_TRUE(marked().empty());
}

// Would break: once two peers have complained of a reducer, it is never asked to reduce again,
// since each exchange begins with the complaint and ends with it.
TEST(RunReach, AComplaintOfOneExchangeDoesNotRenewItself) {
  SimulatedPeers peers(4, 2, 80);
  const std::vector<std::string> names = {"a", "b", "c", "d"};
  peers.Begin(names);
  for (const std::string& peer : names) peers.Ready(peer);
  for (const char* from : {"a", "b"}) {
    v1::PeerMessage message;
    v1::ReducerUnreachable* const report = message.mutable_reducer_unreachable();
    report->set_version(1);
    report->set_epoch(peers.WholePlan("a")->epoch());
    report->set_revision(1);
    report->set_reducer("c");
    peers.Say(from, message);
  }
  for (const std::string& peer : names) peers.Vote(peer);
  ASSERT_EQ(peers.run->version(), 1u);
  EXPECT_THAT(ReducersOfRound(peers, names), Not(Contains("c")));
  int rounds = 1;
  while (rounds < 40 && ReducersOfRound(peers, names).count("c") == 0) ++rounds;
  EXPECT_LE(rounds, 9);
}

}  // namespace
}  // namespace atolld
