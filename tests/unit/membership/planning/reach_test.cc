#include "membership/planning/reach.h"

#include <map>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace atolld {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

using Doubts = std::map<std::string, std::set<std::string>>;  // accusers, by accused

absl::Time At(int seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }

// All peers are heard all the time.
std::vector<Reach::Doubt> Lapse(Reach& reach, absl::Time now) {
  return reach.Lapse(now, [now](const std::string&) { return now; });
}

// Would break: a firewalled peer is asked to reduce again as soon as a few rounds have passed, and
// each time a round waits for it.
TEST(Reach, ADoubtLastsAsLongAsItIsRepeated) {
  Reach reach(absl::Seconds(5));
  EXPECT_TRUE(reach.NoteInVain(At(0), "a", "b", "no answer"));
  for (int second = 5; second <= 600; second += 5) {
    EXPECT_FALSE(reach.NoteInVain(At(second), "a", "b", "no answer"));
    EXPECT_THAT(Lapse(reach, At(second)), IsEmpty());
  }
  ASSERT_EQ(reach.All().size(), 1u);
  EXPECT_EQ(reach.All()[0].since, At(0));
  EXPECT_TRUE(reach.NoteAnswered("a", "b"));
  EXPECT_FALSE(reach.NoteAnswered("a", "b"));
  EXPECT_TRUE(reach.empty());
}

// Would break: the word of a peer of an earlier release, which never takes it back, stands for
// ever.
TEST(Reach, ADoubtThatNobodyRepeatsLapses) {
  Reach reach(absl::Seconds(5));
  reach.NoteInVain(At(0), "a", "b", "");
  EXPECT_THAT(Lapse(reach, At(0) + reach.Lifetime() - absl::Seconds(1)), IsEmpty());
  EXPECT_EQ(Lapse(reach, At(0) + reach.Lifetime()).size(), 1u);
  EXPECT_TRUE(reach.empty());
}

// Broken: a peer whose Hellos alone arrive is shown as live, and the doubts that it reported before
// are forgotten because it cannot repeat them.
TEST(Reach, ADoubtGrowsNoOlderWhileItsPeerIsNotHeard) {
  Reach reach(absl::Seconds(5));
  reach.NoteInVain(At(0), "a", "b", "no answer");
  reach.NoteInVain(At(0), kCoordinatorDials, "b", "no answer");
  absl::Time heard = At(1);
  const auto last = [&heard](const std::string&) { return heard; };
  ASSERT_EQ(reach.Lapse(At(600), last).size(), 1u) << "the coordinator's own";
  EXPECT_TRUE(reach.InDoubt("a", "b"));
  reach.SetAside("a");
  EXPECT_THAT(reach.Lapse(At(900), last), IsEmpty());
  EXPECT_THAT(reach.TakeUp("a", [](const std::string&) { return true; }), ElementsAre("b"));
  heard = At(901);
  EXPECT_EQ(reach.Lapse(At(901), last).size(), 1u) << "it speaks and does not repeat it";
}

// Would break: one liar has any peer taken for unreachable; or two honest accounts are not enough.
TEST(Reach, ItTakesTwoAccounts) {
  Reach reach(absl::Seconds(5));
  reach.NoteInVain(At(0), "a", "b", "");
  EXPECT_FALSE(reach.Unreachable("b"));
  reach.NoteInVain(At(1), kCoordinatorDials, "b", "");
  EXPECT_TRUE(reach.Unreachable("b"));
  reach.NoteAnswered("a", "b");
  EXPECT_FALSE(reach.Unreachable("b"));
  reach.Forget("b");
  EXPECT_TRUE(reach.empty());
}

// Would break: each time that a peer on a bad line falls silent, nobody knows any more whom it
// cannot reach; or the dead stand accused.
TEST(Reach, WhatIsKnownOfASilentPeerCountsWhenItIsBack) {
  Reach reach(absl::Seconds(5));
  reach.NoteInVain(At(0), "a", "b", "no answer");
  reach.NoteInVain(At(0), kCoordinatorDials, "a", "no answer");
  reach.NoteInVain(At(1), "c", "b", "no answer");
  reach.SetAside("a");
  EXPECT_EQ(reach.All().size(), 1u) << "of c about b";
  reach.SetAside("b");
  EXPECT_TRUE(reach.empty());
  std::set<std::string> here = {"a", "c"};
  const auto is_here = [&](const std::string& peer) { return here.count(peer) > 0; };
  EXPECT_THAT(reach.TakeUp("a", is_here), ElementsAre("a")) << "b is away still";
  EXPECT_TRUE(reach.InDoubt(kCoordinatorDials, "a"));
  here.insert("b");
  EXPECT_FALSE(reach.NoteAnswered("c", "b")) << "it did not count";
  EXPECT_THAT(reach.TakeUp("b", is_here), ElementsAre("b"));
  EXPECT_TRUE(reach.InDoubt("a", "b"));
  EXPECT_FALSE(reach.InDoubt("c", "b")) << "c has said that it answers";
  reach.SetAside("a");
  EXPECT_THAT(Lapse(reach, At(3) + reach.Lifetime()), IsEmpty()) << "it did not count";
  EXPECT_THAT(reach.TakeUp("a", is_here), IsEmpty()) << "too old";
  reach.NoteInVain(At(4), "a", "b", "no answer");
  reach.SetAside("a");
  reach.Forget("a");
  EXPECT_THAT(reach.TakeUp("a", is_here), IsEmpty()) << "another process";
}

// Would break: a peer that makes names up, or accuses all of 10,000, takes memory without end.
TEST(Reach, OneSpeakerIsHeardOfSoMany) {
  Reach reach(absl::Seconds(5));
  for (size_t i = 0; i < 10 * Reach::kMostOfOne; ++i) {
    reach.NoteInVain(At(0), "liar", "p" + std::to_string(i), "");
  }
  EXPECT_EQ(reach.All().size(), Reach::kMostOfOne);
}

// Would break: the operator learns that something is wrong, and neither where nor what to do.
TEST(Reach, TellsTheOwnerWhoAndWhatToDo) {
  Reach reach(absl::Seconds(5));
  reach.NoteInVain(At(0), "a", "b", "");
  EXPECT_THAT(reach.Told(At(7), "a", "a:1"), HasSubstr("it alone cannot reach b (for 7s)"));
  EXPECT_THAT(reach.Told(At(7), "b", "b:1"), HasSubstr("a alone cannot reach it (for 7s)"));
  EXPECT_THAT(reach.Told(At(7), "c", "c:1"), IsEmpty());
  reach.NoteInVain(At(3), "c", "b", "");
  EXPECT_THAT(reach.Told(At(7), "b", "b:1"), HasSubstr("others cannot dial b:1 (a, c, for 7s)"));
  EXPECT_THAT(reach.Told(At(7), "b", "b:1"), HasSubstr("a firewall?"));
  EXPECT_THAT(reach.Told(At(7), "a", "a:1"), IsEmpty()) << "the fault is b's";
}

std::vector<ExchangeContributor> Contributors(const std::string& names) {
  std::vector<ExchangeContributor> contributors;
  for (const char name : names) {
    ExchangeContributor& one = contributors.emplace_back();
    one.member.set_peer(std::string(1, name));
    one.member.set_address(std::string(1, name) + ":1");
  }
  return contributors;
}

Around Plan(const std::vector<ExchangeContributor>& contributors, const Doubts& doubts,
            size_t quorum, const std::vector<std::string>& silent = {}, bool may_leave_out = true) {
  return PlanAround({contributors, {}, doubts, quorum, may_leave_out, silent});
}

// Would break: healthy exchanges are planned by one reducer, or without some.
TEST(PlanAround, LeavesHealthyExchangesAlone) {
  const Around around = Plan(Contributors("abcd"), {}, 2);
  EXPECT_THAT(around.spared, IsEmpty());
  EXPECT_THAT(around.left_out, IsEmpty());
  EXPECT_EQ(around.alone, "");
}

// Would break: one volunteer's firewall stops everybody.
TEST(PlanAround, WhomNobodyReachesDoesNotReduceButTakesPart) {
  const Around around = Plan(Contributors("abcd"), {{"c", {"a", "b", "d"}}}, 2);
  EXPECT_THAT(around.spared, ElementsAre("c"));
  EXPECT_THAT(around.left_out, IsEmpty());
}

// Would break: two that cannot see each other wait for each other in each round.
TEST(PlanAround, AThirdReducesForAPair) {
  const Around both = Plan(Contributors("abcd"), {{"b", {"c"}}, {"c", {"b"}}}, 2);
  EXPECT_THAT(both.spared, UnorderedElementsAre("b", "c"));
  EXPECT_THAT(both.left_out, IsEmpty());
  const Around one_way = Plan(Contributors("abcd"), {{"b", {"c"}}}, 2);
  EXPECT_THAT(one_way.spared, UnorderedElementsAre("b", "c")) << "c gains nothing by its word";
}

// Would break: a peer that accuses all others becomes the only reducer, or keeps the run from
// committing.
TEST(PlanAround, WhoAccusesManyAloneIsLeftOut) {
  const Doubts liar = {{"a", {"d"}}, {"b", {"d"}}, {"c", {"d"}}};
  const Around around = Plan(Contributors("abcd"), liar, 3);
  EXPECT_THAT(around.left_out, ElementsAre("d"));
  EXPECT_THAT(around.spared, IsEmpty());
  // Where the quorum needs it, it does for itself what it cannot have done for it.
  EXPECT_EQ(Plan(Contributors("abcd"), liar, 4).alone, "d");
}

// Would break: a peer that does not contribute takes others' part in the exchange by its word.
TEST(PlanAround, AStrangersWordCountsBesideAnothersAlone) {
  EXPECT_THAT(Plan(Contributors("abc"), {{"b", {"x"}}}, 2).spared, IsEmpty());
  EXPECT_THAT(Plan(Contributors("abc"), {{"b", {"x", "y"}}}, 2).spared, ElementsAre("b"));
  EXPECT_THAT(Plan(Contributors("abc"), {{"b", {kCoordinatorDials}}}, 2).spared,
              UnorderedElementsAre("b", kCoordinatorDials));
}

// Would break: with a ring of cuts nobody is left to reduce, and the run stands.
TEST(PlanAround, TheOneWhomMostReachReducesAlone) {
  // Only a is reached by all but d.
  const Doubts doubts = {{"a", {"d"}}, {"b", {"c", "d"}}, {"c", {"b", "d"}}, {"d", {"a", "b"}}};
  const Around around = Plan(Contributors("abcd"), doubts, 3);
  EXPECT_EQ(around.alone, "a");
  EXPECT_THAT(around.left_out, ElementsAre("d"));
  EXPECT_THAT(around.spared, UnorderedElementsAre("b", "c", "d"));
  EXPECT_THAT(Plan(Contributors("abcd"), doubts, 4).left_out, IsEmpty());
  EXPECT_THAT(Plan(Contributors("abcd"), doubts, 3, {}, false).left_out, IsEmpty()) << "masked";
}

// Would break: an attempt that came to nothing is planned the same way again, for ever.
TEST(PlanAround, NoSilentAttemptIsRepeated) {
  std::vector<std::string> silent = {""};
  for (const char* next : {"a", "b", "c", "d", "a", "b"}) {
    EXPECT_EQ(Plan(Contributors("abcd"), {}, 2, silent).alone, next);
    silent.push_back(next);
  }
}

// Would break: what was learned meanwhile changes the order of those that may reduce alone, and the
// one that it failed with is the next one again; or one that is known to be cut off.
TEST(PlanAround, WhatIsLearnedBetweenAttemptsCounts) {
  const Doubts before = {{"b", {"d"}}, {"d", {"b"}}};
  EXPECT_EQ(Plan(Contributors("abcd"), before, 4, {""}).alone, "a");
  const Doubts after = {{"a", {"d"}}, {"b", {"d"}}, {"d", {"b"}}};
  EXPECT_EQ(Plan(Contributors("abcd"), after, 4, {"", "a"}).alone, "c");
  EXPECT_EQ(Plan(Contributors("abcd"), after, 4, {"", "a", "c"}).alone, "c") << "none else can";
  EXPECT_EQ(Plan(Contributors("abcd"), after, 3, {"", "a", "c"}).alone, "b") << "without d";
}

// Would break: one that spoils means accuses all others, and is the one that reduces ever after.
TEST(PlanAround, WhoAveragedThinlyIsNoStarWhileThereIsAnother) {
  std::vector<ExchangeContributor> contributors = Contributors("abc");
  contributors[2].may_reduce = false;
  const Doubts accused = {{"a", {"c"}}, {"b", {"c"}}};
  EXPECT_EQ(Plan(contributors, accused, 3, {"c"}).alone, "a");
  EXPECT_EQ(Plan(contributors, accused, 3, {"c", "a"}).alone, "b");
  // Where the others cannot be reached by anybody's account but its own, it reduces all the same.
  const Doubts hidden = {{"a", {kCoordinatorDials, "b", "c"}}, {"b", {kCoordinatorDials, "c"}}};
  EXPECT_EQ(Plan(contributors, hidden, 3, {"a"}).alone, "c");
  for (ExchangeContributor& one : contributors) one.may_reduce = false;
  EXPECT_EQ(Plan(contributors, {}, 3, {""}).alone, "a");
}

// Would break: where two cannot see each other and one attempt was in vain, they take turns for
// ever, though an aggregator could reduce for them.
TEST(PlanAround, AnAggregatorReducesAloneForTwoThatCannotSeeEachOther) {
  const std::vector<ExchangeContributor> pair = Contributors("ab");
  std::vector<ExchangeAggregator> aggregators(1);
  aggregators[0].peer = "z";
  const Doubts doubts = {{"a", {"b"}}, {"b", {"a"}}};
  EXPECT_THAT(PlanAround({pair, aggregators, doubts, 2, true, {}}).spared,
              UnorderedElementsAre("a", "b"));
  const std::vector<std::string> silent = {"a"};
  const Around again = PlanAround({pair, aggregators, doubts, 2, true, silent});
  EXPECT_EQ(again.alone, "z");
  EXPECT_THAT(again.spared, UnorderedElementsAre("a", "b"));
  EXPECT_THAT(again.left_out, IsEmpty());
}

}  // namespace
}  // namespace atolld
