#include "membership/run/roster.h"

#include "gtest/gtest.h"

namespace atolld {
namespace {

const absl::Time kStart = absl::UnixEpoch();
absl::Time At(double seconds) { return kStart + absl::Seconds(seconds); }

v1::Hello HelloOf(const std::string& peer, bool has_state = true) {
  v1::Hello hello;
  hello.set_peer(peer);
  hello.set_address(peer + ":1");
  hello.set_has_state(has_state);
  return hello;
}

std::string State(const Roster& roster, const std::string& peer) {
  return std::string(MemberStateName(roster.Find(peer)->state));
}

// Runs the ticks that the owner would run, and returns who died.
std::string Ticks(Roster* roster, double from, double to) {
  std::string dead;
  for (double t = from; t <= to; t += 1) {
    for (const Roster::Death& death : roster->Tick(At(t)))
      dead += death.peer + "@" + std::to_string(static_cast<int>(t)) + " ";
  }
  return dead;
}

// Would break: a round that waits for the dead, or a live peer taken for dead.
TEST(Roster, ASilentPeerIsDeadAfterTheFailureTimeoutAndNotBefore) {
  Roster roster(absl::Seconds(10), kStart, {});
  roster.Join(At(0), 1, HelloOf("a"));
  roster.Join(At(0), 2, HelloOf("b", false));
  EXPECT_EQ(State(roster, "b"), "joining");
  roster.SetState("b", 3);
  EXPECT_EQ(State(roster, "b"), "live");
  for (double t = 1; t <= 30; t += 1) {
    roster.Heard(At(t), "b");
    const auto deaths = roster.Tick(At(t));
    EXPECT_EQ(deaths.size(), t == 10 ? 1u : 0u) << t;
    if (t == 10) {
      EXPECT_EQ(deaths[0].session, 1u);
    }
  }
  EXPECT_EQ(State(roster, "a"), "dead");
  EXPECT_EQ(State(roster, "b"), "live");
  roster.Join(At(31), 3, HelloOf("a"));
  EXPECT_EQ(State(roster, "a"), "live");
}

// Would break: a peer thrown out for one lost connection, or kept for the whole failure timeout.
TEST(Roster, ABrokenSessionIsSuspectAndDeadUnlessItResumes) {
  for (const bool resumes : {false, true}) {
    Roster roster(absl::Seconds(10), kStart, {});
    roster.Join(At(0), 1, HelloOf("a"));
    EXPECT_EQ(roster.Break(At(1), 1), "a");
    EXPECT_EQ(State(roster, "a"), "suspect");
    if (resumes) {
      EXPECT_EQ(roster.Join(At(3), 2, HelloOf("a")), 0u);
    }
    EXPECT_EQ(Ticks(&roster, 1, 6), resumes ? "" : "a@4 ");
  }
}

// Would break: the bound on a death that a refused redial proves.
TEST(Roster, ARefusedRedialOfASuspectIsDeathAtOnce) {
  Roster roster(absl::Seconds(10), kStart, {});
  roster.Join(At(0), 1, HelloOf("a"));
  EXPECT_FALSE(roster.Refused(At(0), "a"));  // live: the refusal is somebody else's trouble
  roster.Break(At(1), 1);
  EXPECT_TRUE(roster.Refused(At(1), "a"));
  EXPECT_EQ(State(roster, "a"), "dead");
}

// Would break: a redial that comes before the old session's end makes the peer suspect.
TEST(Roster, ANewerSessionReplacesTheOlder) {
  Roster roster(absl::Seconds(10), kStart, {});
  roster.Join(At(0), 1, HelloOf("a"));
  EXPECT_EQ(roster.Join(At(1), 2, HelloOf("a")), 1u);
  EXPECT_EQ(roster.Break(At(2), 1), "");
  EXPECT_EQ(State(roster, "a"), "live");
}

// Would break: a restart of the coordinator costs peers that are only about to come back.
TEST(Roster, AfterARestartNobodyDiesBeforeTheGraceEnds) {
  const std::vector<MemberRecord> former = {
      {"a", "a:1", "live"}, {"b", "b:1", "suspect"}, {"c", "", "left"}};
  Roster roster(absl::Seconds(10), kStart, former);
  EXPECT_TRUE(roster.in_grace(At(1)));
  roster.Join(At(1), 1, HelloOf("a"));
  roster.Break(At(2), 1);
  EXPECT_FALSE(roster.Refused(At(2), "a"));
  EXPECT_EQ(Ticks(&roster, 1, 9), "");
  EXPECT_EQ(Ticks(&roster, 10, 11), "a@10 b@10 ");
  EXPECT_EQ(State(roster, "c"), "left");
}

// Would break: the grace costs ten seconds when everybody is back after one.
TEST(Roster, TheGraceEndsWhenAllAreBack) {
  const std::vector<MemberRecord> former = {{"a", "a:1", "live"}, {"b", "b:1", "dead"}};
  Roster roster(absl::Seconds(10), kStart, former);
  EXPECT_TRUE(roster.in_grace(At(1)));
  roster.Join(At(1), 1, HelloOf("a"));
  EXPECT_FALSE(roster.in_grace(At(1)));
}

// Would break: the roster grows for ever, or an operator cannot see who died in the morning.
TEST(Roster, TheGoneAreForgottenAfterADayAndTheEvictedNever) {
  Roster roster(absl::Seconds(10), kStart, {});
  for (const char* peer : {"a", "b", "c", "d"}) roster.Join(At(0), 1, HelloOf(peer));
  roster.Leave(At(5), "b", "drained");
  roster.Evict(At(5), "c", "it lies");
  EXPECT_EQ(Ticks(&roster, 1, 10), "a@10 d@10 ");
  roster.Join(At(11), 2, HelloOf("d"));
  const absl::Time day = At(5) + absl::Hours(24);
  EXPECT_TRUE(roster.Stale(day - absl::Seconds(1)).empty());
  EXPECT_EQ(roster.Stale(day), std::vector<std::string>{"b"});
  EXPECT_EQ(roster.Stale(day + absl::Hours(1)), (std::vector<std::string>{"b", "a"}));
  roster.Forget("b");
  EXPECT_EQ(roster.Find("b"), nullptr);
  EXPECT_EQ(State(roster, "c"), "evicted");
  EXPECT_EQ(roster.Find("c")->why, "it lies");
}

// Would break: a flood of peers that come and go fills the roster that everybody is sent.
TEST(Roster, OfVeryManyGoneTheLongestGoneAreForgottenAtOnce) {
  Roster roster(absl::Seconds(10), kStart, {});
  for (int i = 0; i < 300; ++i) {
    const std::string peer = "p" + std::to_string(1000 - i);
    roster.Join(At(i), 1, HelloOf(peer));
    roster.Leave(At(i), peer, "");
  }
  const std::vector<std::string> stale = roster.Stale(At(300));
  ASSERT_EQ(stale.size(), 44u);
  EXPECT_EQ(stale.front(), "p1000");
  EXPECT_EQ(stale.back(), "p957");
}

// Would break: after a restart an evicted peer is a member, or a drained one is not asked again.
TEST(Roster, RemembersWhatOperatorsAskedOverARestart) {
  Roster before(absl::Seconds(10), kStart, {});
  for (const char* peer : {"a", "b"}) before.Join(At(0), 1, HelloOf(peer));
  before.Evict(At(1), "a", "it lies");
  before.Drain("b", "new disk");
  std::vector<MemberRecord> records;
  for (const auto& [peer, member] : before.members()) records.push_back(Roster::Record(member));
  Roster roster(absl::Seconds(10), kStart, records);
  EXPECT_EQ(State(roster, "a"), "evicted");
  EXPECT_FALSE(roster.Find("a")->restored);
  EXPECT_EQ(roster.Find("a")->why, "it lies");
  EXPECT_TRUE(roster.Find("b")->draining);
  EXPECT_EQ(roster.Find("b")->why, "new disk");
  roster.Readmit(At(1), "a");
  EXPECT_EQ(State(roster, "a"), "left");
  roster.Join(At(2), 3, HelloOf("b"));
  EXPECT_TRUE(roster.Find("b")->draining);  // the same process, or one that its owner restarted
  roster.Leave(At(3), "b", "drained");
  EXPECT_FALSE(roster.Find("b")->draining);
}

// Would break: joiners do not learn who has what they need, or where it is near.
TEST(Roster, TellsRegionsAndOffers) {
  Roster roster(absl::Seconds(10), kStart, {});
  v1::Hello hello = HelloOf("a");
  hello.set_region("eu");
  hello.mutable_offer()->set_oldest_entry(4);
  roster.Join(At(0), 1, hello);
  EXPECT_EQ(roster.ToProto().members(0).region(), "eu");
  EXPECT_EQ(roster.ToProto().members(0).offer().oldest_entry(), 4u);
  v1::Offer offer;
  offer.set_snapshot_version(9);
  roster.SetOffer("a", offer);
  EXPECT_EQ(roster.ToProto().members(0).offer().snapshot_version(), 9u);
  roster.Join(At(1), 2, HelloOf("a"));
  EXPECT_FALSE(roster.ToProto().members(0).has_offer());
}

// Would break: a coordinator that was suspended for a minute declares everybody dead when it wakes.
TEST(Roster, ItsOwnSilenceIsNobodysDeath) {
  Roster roster(absl::Seconds(10), kStart, {});
  roster.Join(At(0), 1, HelloOf("a"));
  EXPECT_EQ(Ticks(&roster, 0, 2), "");
  EXPECT_TRUE(roster.Tick(At(62)).empty());
  roster.Heard(At(62), "a");
  EXPECT_EQ(Ticks(&roster, 63, 71), "");
  EXPECT_EQ(Ticks(&roster, 72, 74), "a@72 ");
}

// Would break: whoever names another's address takes it away: nobody can dial its owner any more.
TEST(Roster, AnAddressIsItsFirstHoldersWhileThatOneIsHere) {
  Roster roster(absl::Seconds(10), absl::UnixEpoch(), {});
  const absl::Time now = absl::UnixEpoch();
  const auto join = [&](const std::string& peer, const std::string& address, SessionId session) {
    v1::Hello hello;
    hello.set_peer(peer);
    hello.set_address(address);
    roster.Join(now, session, hello);
  };
  join("m", "m:1", 1);
  join("z", "m:1", 2);
  EXPECT_EQ(roster.Find("m")->address, "m:1");
  EXPECT_EQ(roster.Find("z")->address, "");
  EXPECT_EQ(roster.Find("z")->claimed, "m:1");
  join("m", "m:1", 3);  // it comes back, and keeps it
  EXPECT_EQ(roster.Find("m")->address, "m:1");
  roster.Leave(now, "m", "done");
  EXPECT_EQ(roster.Find("z")->address, "m:1") << "it is free";
  join("m", "m:1", 4);
  EXPECT_EQ(roster.Find("m")->address, "");
  // Its owner shows that it is the one that answers there.
  EXPECT_TRUE(roster.GrantAddress("m"));
  EXPECT_EQ(roster.Find("m")->address, "m:1");
  EXPECT_EQ(roster.Find("z")->address, "");
  join("m", "n:1", 5);  // it has moved
  EXPECT_EQ(roster.Find("m")->address, "n:1");
  EXPECT_EQ(roster.Find("z")->address, "m:1");
}

// Would break: a run takes in more members than one message can name, and from then on nobody's
// Session stands.
TEST(Roster, ItsBytesBoundTheMessageThatNamesAll) {
  Roster roster(absl::Seconds(10), kStart, {});
  const std::string name(62, 'p');
  for (SessionId i = 1; i <= 30; ++i) {
    v1::Hello hello = HelloOf(name + std::to_string(10 + i));
    hello.set_region(std::string(64, 'r'));
    hello.set_version(UINT64_MAX);
    hello.mutable_offer()->set_oldest_entry(UINT64_MAX);
    hello.mutable_offer()->set_has_snapshot(true);
    hello.mutable_offer()->set_snapshot_version(UINT64_MAX);
    roster.Join(At(0), i, hello);
  }
  v1::Roster told = roster.ToProto();
  const v1::Roster all = told;
  for (const v1::Member& member : all.members()) told.add_awaited(member.peer());
  EXPECT_LE(told.ByteSizeLong(), roster.told_bytes());
  EXPECT_GE(2 * told.ByteSizeLong(), roster.told_bytes());
  const size_t with_long = roster.told_bytes();
  roster.Join(At(1), 31, HelloOf(name + "11"));
  EXPECT_EQ(roster.told_bytes(), with_long - 64);
  for (const v1::Member& member : told.members()) roster.Forget(member.peer());
  EXPECT_EQ(roster.told_bytes(), 0u);
}

// Would break: a peer that has an identity and cannot come delays the first round by more than two
// failure_timeouts.
TEST(Roster, TheFirstRoundAwaitsThoseWhoHaveNotComeForLessThanTwoTimeouts) {
  Roster roster(absl::Seconds(5), kStart, {});
  roster.Join(At(0), 1, HelloOf("a"));
  roster.Join(At(1), 2, HelloOf("b"));
  const auto tick = [&roster](double t) {
    for (const char* peer : {"a", "b"}) roster.Heard(At(t), peer);
    roster.Tick(At(t));
  };
  for (double t = 2; t < 9; t += 1) {
    tick(t);
    EXPECT_EQ(roster.Expected(4), 4u) << t;
  }
  tick(9);
  EXPECT_EQ(roster.Expected(4), 2u);
  roster.Join(At(10), 3, HelloOf("c"));
  tick(10);
  EXPECT_EQ(roster.Expected(4), 4u) << "where one comes, others may";
}

// Would break: a peer that can greet and nothing else makes the first round wait for ever, both for
// itself and for those that have not come.
TEST(Roster, WhoGreetsAgainAndAgainProlongsNoWait) {
  Roster roster(absl::Seconds(5), kStart, {});
  roster.Join(At(0), 1, HelloOf("a"));
  SessionId session = 2;
  roster.Join(At(0), session, HelloOf("b", false));
  roster.SetParameters(At(0), 1000);
  EXPECT_FALSE(roster.Find("b")->hears_nothing());
  double t = 1;
  for (; t <= 8; t += 1) {
    roster.Break(At(t), session);
    roster.Join(At(t), ++session, HelloOf("b", false));
    EXPECT_EQ(roster.Find("b")->hears_nothing(), t > 1) << t;
    roster.Heard(At(t), "a");
    roster.Tick(At(t));
    EXPECT_EQ(roster.Expected(4), t < 8 ? 4u : 2u) << t;
  }
  for (; t <= 31; t += 1) {
    roster.Join(At(t), ++session, HelloOf("b", false));
    roster.Heard(At(t), "a");
    roster.Tick(At(t));
  }
  EXPECT_TRUE(roster.Find("b")->set_aside) << "it has not got version 0";
  EXPECT_EQ(roster.Expected(4), 1u);
  roster.Heard(At(t), "b");
  EXPECT_FALSE(roster.Find("b")->hears_nothing());
}

// Would break: who is away for good counts twice, as one that is set aside and as one that has not
// come, so that the first round goes without another that is here.
TEST(Roster, WhoIsSetAsideAndGoneIsOneLessAndNotTwo) {
  Roster roster(absl::Seconds(10), kStart, {});
  for (const char* peer : {"a", "b", "c", "d"}) {
    roster.Join(At(0), static_cast<uint64_t>(peer[0]), HelloOf(peer));
  }
  roster.NoteIdle("d", true, true);
  roster.Leave(At(0), "d", "away by its trace for good");
  const auto tick = [&roster](double t) {
    for (const char* peer : {"a", "b", "c"}) roster.Heard(At(t), peer);
    roster.Tick(At(t));
  };
  tick(0);
  roster.Heard(At(3), "c");
  roster.NoteIdle("c", true, false);
  for (double t = 1; t <= 51; t += 1) tick(t);
  ASSERT_TRUE(roster.nobody_comes());
  EXPECT_EQ(roster.TakeSetAside(), std::vector<std::string>{"d"});
  EXPECT_EQ(roster.Expected(4), 3u) << "c may still come to train";
  for (double t = 52; t <= 54; t += 1) tick(t);
  EXPECT_EQ(roster.TakeSetAside(), std::vector<std::string>{"c"});
  EXPECT_EQ(roster.Expected(4), 2u);
}

}  // namespace
}  // namespace atolld
