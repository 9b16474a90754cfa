#include "membership/run/roster_news.h"

#include <algorithm>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/unit/membership/run/simulated_peers.h"

namespace atolld {
namespace {

constexpr absl::Duration kTimeout = absl::Seconds(10);

absl::Time After(double seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }

// A roster and what it tells; a peer that has heard everything from the beginning.
struct News {
  News() : roster(kTimeout, After(0), {}), news(kTimeout) {}

  void Join(const std::string& peer) {
    v1::Hello hello;
    hello.set_peer(peer);
    hello.set_address(peer + ":1");
    hello.set_has_state(true);
    roster.Join(After(0), ++session, hello);
    news.NoteChange();
  }
  // What all are told now, or nothing.
  const v1::RosterDelta* Tell(double at, bool sealed = false,
                              const std::vector<std::string>& awaited = {}) {
    told = news.Due(After(at)) ? news.Take(After(at), roster, sealed, awaited) : nullptr;
    if (told == nullptr) return nullptr;
    EXPECT_EQ(Follow(told->roster_delta(), &follower), absl::OkStatus());
    return &told->roster_delta();
  }
  std::string Whole() { return news.Whole()->roster().SerializeAsString(); }

  Roster roster;
  RosterNews news;
  SessionId session = 0;
  RunOutput::Message told;
  v1::Roster follower;
};

// Would break: whoever followed the changes knows another roster than whoever came late.
TEST(RosterNews, ChangesComeToTheSameAsTheWhole) {
  News n;
  for (const char* peer : {"c", "a", "d", "b"}) {
    n.Join(peer);
    ASSERT_NE(n.Tell(static_cast<double>(n.session)), nullptr);
    EXPECT_EQ(n.follower.SerializeAsString(), n.Whole());
  }
  ASSERT_EQ(n.follower.members_size(), 4);
  EXPECT_EQ(n.follower.members(1).peer(), "b");
  n.roster.Leave(After(5), "b", "enough");
  n.news.NoteChange();
  const v1::RosterDelta* const left = n.Tell(5);
  ASSERT_NE(left, nullptr);
  ASSERT_EQ(left->changed_size(), 1) << "and nothing of the others";
  EXPECT_EQ(left->changed(0).state(), "left");
  n.roster.Forget("a");
  n.roster.Forget("d");
  n.Join("e");
  ASSERT_NE(n.Tell(6), nullptr);
  EXPECT_EQ(n.told->roster_delta().gone_size(), 2);
  EXPECT_EQ(n.follower.SerializeAsString(), n.Whole());
}

// Would break: with each commit everybody would be told of everybody's new version.
TEST(RosterNews, WhatHasNotChangedIsNotSent) {
  News n;
  n.Join("a");
  n.Join("b");
  ASSERT_NE(n.Tell(0), nullptr);
  n.news.NoteChange();
  EXPECT_EQ(n.Tell(1), nullptr);
  n.roster.SetState("a", 7);
  n.news.NoteChange();
  EXPECT_EQ(n.Tell(2), nullptr) << "a version alone";
  v1::Offer offer;
  offer.set_has_snapshot(true);
  n.roster.SetOffer("a", offer);
  n.news.NoteChange();
  ASSERT_NE(n.Tell(3), nullptr);
  EXPECT_EQ(n.told->roster_delta().changed_size(), 1);
  n.roster.SetOffer("a", offer);
  n.news.NoteChange();
  EXPECT_EQ(n.Tell(4), nullptr) << "the same offer again";
  n.roster.SetState("b", 7);
  n.news.NoteChange();
  ASSERT_NE(n.Tell(5, true), nullptr) << "in a sealed run it counts who holds what";
  EXPECT_EQ(n.told->roster_delta().changed(0).version(), 7u);
}

// Would break: n peers that join at once would be told of each other n x n times.
TEST(RosterNews, ChangesOfAShortWhileAreToldTogetherAndOfALongOneAtOnce) {
  News n;
  for (const char* peer : {"a", "b", "c", "d", "e", "f"}) n.Join(peer);
  ASSERT_NE(n.Tell(1), nullptr) << "nothing was told for long";
  for (int i = 0; i < 200; ++i) n.Join("p" + std::to_string(100 + i));
  EXPECT_EQ(n.Tell(1), nullptr);
  EXPECT_GT(n.news.NextDue(), After(1));
  const double due = absl::ToDoubleSeconds(n.news.NextDue() - absl::UnixEpoch());
  ASSERT_NE(n.Tell(due), nullptr);
  EXPECT_EQ(n.told->roster_delta().changed_size(), 200);
  EXPECT_EQ(n.news.NextDue(), absl::InfiniteFuture());
  n.Join("q");
  EXPECT_EQ(n.Tell(due + 0.05), nullptr) << "two hundred cost a tenth of a second";
  n.news.Hurry();
  ASSERT_NE(n.Tell(due + 0.05), nullptr) << "an eviction does not wait";
  EXPECT_EQ(n.follower.SerializeAsString(), n.Whole());
}

// Would break: peers of a sealed run would stay for ever, or leave one that needs them.
TEST(RosterNews, WhoIsAwaitedIsToldAlsoWhereNothingElseHasChanged) {
  News n;
  n.Join("a");
  ASSERT_NE(n.Tell(0), nullptr);
  n.news.Insist();
  ASSERT_NE(n.Tell(0, true), nullptr) << "nobody is: that is news too";
  n.news.NoteChange();
  ASSERT_NE(n.Tell(1, true, {"a", "b"}), nullptr);
  EXPECT_EQ(n.follower.awaited_size(), 2);
  n.news.NoteChange();
  ASSERT_NE(n.Tell(2, true, {"b"}), nullptr);
  EXPECT_EQ(n.told->roster_delta().arrived_size(), 1);
  ASSERT_EQ(n.follower.awaited_size(), 1);
  EXPECT_EQ(n.follower.awaited(0), "b");
  EXPECT_EQ(n.follower.SerializeAsString(), n.Whole());
}

// Would break: a peer that has missed a change would go on with a roster that nobody told it.
TEST(RosterNews, AChangeThatDoesNotFollowIsRefused) {
  v1::Roster roster;
  roster.set_number(4);
  roster.add_members()->set_peer("a");
  const std::string before = roster.SerializeAsString();
  v1::RosterDelta delta;
  for (const uint64_t number : {3, 4, 6}) {
    delta.set_number(number);
    EXPECT_TRUE(absl::IsInvalidArgument(Follow(delta, &roster))) << number;
  }
  delta.set_number(5);
  delta.add_changed()->set_peer("c");
  delta.add_changed()->set_peer("b");
  EXPECT_TRUE(absl::IsInvalidArgument(Follow(delta, &roster))) << "not in roster order";
  EXPECT_EQ(roster.SerializeAsString(), before);
}

// Would break: peers that join together are each told of each other's coming, a plan names somebody
// that a contributor has not been told of, or one that comes back does not get it whole.
TEST(RosterNews, ARunTellsTheWholeOnceASessionAndTheRestInChanges) {
  SimulatedPeers peers(3, 2);
  peers.Begin({"a", "b", "c"});
  const auto of = [&](const std::string& peer, auto has) {
    const auto& heard = peers.inbox[peer];
    return std::count_if(heard.begin(), heard.end(), [&](const auto& m) { return (m.*has)(); });
  };
  EXPECT_EQ(of("a", &v1::CoordinatorMessage::has_roster), 1);
  for (const char* peer : {"a", "b", "c"}) {
    EXPECT_EQ(peers.rosters.at(peer).members_size(), 3) << peer;
    EXPECT_EQ(peers.rosters.at(peer).SerializeAsString(),
              peers.rosters.at("a").SerializeAsString());
  }
  peers.Break("b");
  peers.Join("b");
  EXPECT_EQ(of("b", &v1::CoordinatorMessage::has_roster), 2);
  ASSERT_TRUE(peers.Order(RunOrder::Verb::kEvict, "c").ok());
  EXPECT_EQ(peers.rosters.at("a").members(2).state(), "evicted");
  EXPECT_EQ(peers.rosters.at("b").SerializeAsString(), peers.rosters.at("a").SerializeAsString());
}

}  // namespace
}  // namespace atolld
