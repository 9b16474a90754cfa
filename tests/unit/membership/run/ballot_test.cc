#include "membership/run/ballot.h"

#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/membership/history/records_text.h"

namespace atolld {
namespace {

// ExchangeRoundFixture: an exchange of version 5 over 12 chunks, and what its peers may say to it.

constexpr char kState[] = "ssssssssssssssssssssssssssssssss";

std::vector<ExchangeContributor> Contributors(const std::vector<std::string>& peers,
                                              const std::vector<size_t>& dial_out = {}) {
  std::vector<ExchangeContributor> contributors;
  for (const std::string& peer : peers) {
    ExchangeContributor contributor;
    contributor.member.set_peer(peer);
    contributor.member.set_address(peer + ":1");
    contributors.push_back(contributor);
  }
  for (const size_t i : dial_out) contributors[i].member.clear_address();
  return contributors;
}

ExchangeTerms Terms(uint32_t quorum) {
  ExchangeTerms terms;
  terms.version = 5;
  terms.epoch = 2;
  terms.parameters = 12 * 4096 - 5;
  terms.chunk_elements = 4096;
  terms.quorum = quorum;
  terms.deadline = absl::Seconds(10);
  return terms;
}

struct ExchangeRoundFixture {
  using Verdict = Ballot::Verdict;

  ExchangeRoundFixture(const std::vector<std::string>& peers, uint32_t quorum,
                       const std::vector<size_t>& dial_out = {})
      : round(Terms(quorum), Contributors(peers, dial_out)) {}

  v1::Vote MakeVote(char payload = 'p', const std::string& state = kState) const {
    const v1::Plan& plan = round.plan();
    v1::Vote vote;
    vote.set_version(plan.version());
    vote.set_epoch(plan.epoch());
    vote.set_revision(plan.revision());
    vote.set_payload_digest(std::string(32, payload));
    vote.set_state_digest(state);
    *vote.mutable_records() =
        RecordsOf(plan, std::string(1, static_cast<char>((1 << plan.contributors_size()) - 1)));
    return vote;
  }
  Verdict Vote(const std::string& peer, const v1::Vote& vote) {
    last = Ballot::Outcome();
    EXPECT_TRUE(round.OnVote(peer, vote, &last).ok());
    return last.verdict;
  }
  Verdict Vote(const std::string& peer, char payload = 'p') {
    return Vote(peer, MakeVote(payload));
  }
  Verdict Lose(const std::string& peer) {
    const std::string lost[] = {peer};
    last = round.OnLost(lost);
    return last.verdict;
  }
  Verdict Unreachable(const std::string& reporter, const std::string& reducer) {
    v1::ReducerUnreachable report;
    report.set_version(5);
    report.set_epoch(2);
    report.set_revision(round.plan().revision());
    report.set_reducer(reducer);
    last = round.OnUnreachable(reporter, report);
    return last.verdict;
  }
  Verdict Deadline() {
    last = round.OnDeadline();
    return last.verdict;
  }
  std::string Shards() const {
    std::string text;
    for (const v1::Shard& shard : round.plan().shards()) {
      text += std::to_string(shard.first_chunk()) + "+" + std::to_string(shard.chunks()) + ":" +
              shard.reducer() + "/" + std::to_string(shard.attempt()) + " ";
    }
    return text;
  }

  Ballot round;
  Ballot::Outcome last;
};

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Fixture = ExchangeRoundFixture;
using Verdict = Ballot::Verdict;

// Would break: every exchange; its shards must tile the grid among the contributors.
TEST(Ballot, PlansEqualShardsInRosterOrder) {
  Fixture f({"a", "b", "c"}, 2);
  EXPECT_EQ(f.Shards(), "0+4:a/1 4+4:b/1 8+4:c/1 ");
  EXPECT_EQ(f.round.plan().revision(), 1u);
  EXPECT_EQ(f.round.plan().deadline_milliseconds(), 10000u);
}

// Would break: a sum with masks whose parts do not fit could not be summed again, or would be by
// the same reducers.
TEST(Ballot, RedoesEverythingElsewhere) {
  Fixture f({"a", "b", "c"}, 2);
  f.last = f.round.RedoAll();
  EXPECT_EQ(f.last.verdict, Verdict::kRevised);
  EXPECT_EQ(f.Shards(), "0+4:b/2 4+4:c/2 8+4:a/2 ");
  EXPECT_EQ(f.round.plan().revision(), 2u);
}

// Would break: whoever cannot finish an exchange with masks would hold the others up for ever.
TEST(Ballot, GoesOnWithoutThoseWhoseSumsAreMissing) {
  Fixture f({"a", "b", "c"}, 2);
  for (const char* peer : {"a", "b"}) f.round.OnSummed(peer);
  const std::string missing[] = {"c"};
  f.last = f.round.OnSumsMissing(missing);
  EXPECT_EQ(f.last.verdict, Verdict::kRevised);
  EXPECT_TRUE(f.round.Lost("c"));
  EXPECT_THAT(f.last.events.front(), HasSubstr("without the masked sums of c"));
  // Whoever has said a sum has all of its parts: nothing is summed anew.
  EXPECT_EQ(f.round.plan().shards(2).attempt(), 1u);
  EXPECT_FALSE(f.round.plan().shards(2).holder().empty());
  const std::string most[] = {"a", "b"};
  f.last = f.round.OnSumsMissing(most);
  EXPECT_EQ(f.last.verdict, Verdict::kGiveUp);
}

// Would break: a peer behind NAT is asked to reduce, or a run of such peers hangs without a word.
TEST(Ballot, OnlyThoseWithAnAddressReduce) {
  auto contributors = Contributors({"a", "b", "c"});
  contributors[0].member.clear_address();
  contributors[2].may_reduce = false;  // was not reachable lately
  EXPECT_TRUE(Ballot::Reducible(contributors, false).ok());
  const Ballot round(Terms(2), contributors);
  ASSERT_EQ(round.plan().shards_size(), 1);
  EXPECT_EQ(round.plan().shards(0).reducer(), "b");
  contributors[1].member.clear_address();
  EXPECT_EQ(Ballot(Terms(2), contributors).plan().shards(0).reducer(),
            "c");  // nobody else can
  contributors[2].member.clear_address();
  EXPECT_EQ(Ballot::Reducible(contributors, true).message(),
            "no reachable reducer: a, b, c have no address that others can dial");
  contributors[1].member.set_address("b:1");
  contributors[1].dialled_in_vain = true;
  EXPECT_EQ(Ballot::Reducible(contributors, true).message(),
            "no reachable reducer: a, c have no address that others can dial; b was dialled "
            "without success and will be tried again");
  // Alone, it reduces for itself, if nobody is left behind by that.
  EXPECT_TRUE(Ballot::Reducible({contributors[0]}, true).ok());
  EXPECT_FALSE(Ballot::Reducible({contributors[0]}, false).ok());
  EXPECT_TRUE(Ballot::Reducible({contributors[1]}, false).ok());
  EXPECT_EQ(Ballot(Terms(1), {contributors[0]}).plan().shards(0).reducer(), "a");
}

// Would break: an entry is committed that only peers which dial out have; whoever lacks it could
// never fetch it, and never take part again.
TEST(Ballot, WhatNobodyCanFetchIsNotCommitted) {
  Fixture f({"a", "b", "c"}, 2, {0, 1});
  EXPECT_EQ(f.Vote("a"), Verdict::kWait);
  EXPECT_EQ(f.Vote("b"), Verdict::kWait);
  EXPECT_EQ(f.Lose("c"), Verdict::kGiveUp);
  Fixture whole({"a", "b", "c"}, 2, {0, 1});
  EXPECT_EQ(whole.Vote("a"), Verdict::kWait);
  EXPECT_EQ(whole.Vote("c"), Verdict::kWait);
  EXPECT_EQ(whole.Lose("b"), Verdict::kCommit);
}

// Would break: a commit before everybody holds the entry, or none at all.
TEST(Ballot, CommitsWhenAllHaveVotedEqually) {
  Fixture f({"a", "b", "c"}, 2);
  EXPECT_EQ(f.Vote("a"), Verdict::kWait);
  EXPECT_EQ(f.Vote("a"), Verdict::kWait);  // said twice, counted once
  EXPECT_EQ(f.Vote("b"), Verdict::kWait);  // the quorum alone does not end it before the deadline
  EXPECT_EQ(f.Vote("c"), Verdict::kCommit);
  EXPECT_THAT(f.round.voters(), ElementsAre("a", "b", "c"));
}

// Would break: one slow contributor holds up everybody.
TEST(Ballot, AtTheDeadlineTheQuorumIsEnough) {
  Fixture f({"a", "b", "c"}, 2);
  f.Vote("a");
  f.Vote("c");
  EXPECT_EQ(f.Deadline(), Verdict::kCommit);
  EXPECT_THAT(f.round.voters(), ElementsAre("a", "c"));
}

// Would break: a commit by fewer than the quorum.
TEST(Ballot, WithoutAQuorumAtTheDeadlineAllTryAgain) {
  Fixture f({"a", "b", "c"}, 2);
  f.Vote("a");
  EXPECT_EQ(f.Deadline(), Verdict::kGiveUp);
}

// Would break: votes for another attempt, entry or epoch decide this one.
TEST(Ballot, StaleAndForeignVotesDoNotCount) {
  Fixture f({"a", "b"}, 2);
  f.Vote("a");
  v1::Vote vote = f.MakeVote();
  vote.set_revision(2);
  EXPECT_EQ(f.Vote("b", vote), Verdict::kWait);
  vote = f.MakeVote();
  vote.set_epoch(1);
  EXPECT_EQ(f.Vote("b", vote), Verdict::kWait);
  vote = f.MakeVote();
  vote.set_version(4);
  EXPECT_EQ(f.Vote("b", vote), Verdict::kWait);
  EXPECT_EQ(f.Vote("z"), Verdict::kWait);
  const v1::Vote old = f.MakeVote();
  EXPECT_EQ(f.Unreachable("b", "a"), Verdict::kRevised);
  EXPECT_EQ(f.Vote("a", old), Verdict::kWait);
  EXPECT_EQ(f.Vote("b", old), Verdict::kWait);
  EXPECT_EQ(f.Vote("a"), Verdict::kWait);
  EXPECT_EQ(f.Vote("b"), Verdict::kCommit);
}

// Would break: a dead reducer's part of the entry is never averaged, or work that stands is done
// again.
TEST(Ballot, ALostReducersShardGoesToASurvivorUnderANewAttempt) {
  Fixture f({"a", "b", "c"}, 2);
  EXPECT_EQ(f.Lose("b"), Verdict::kRevised);
  EXPECT_EQ(f.Shards(), "0+4:a/1 4+4:a/2 8+4:c/1 ");
  EXPECT_THAT(f.round.plan().lost(), ElementsAre("b"));
  EXPECT_EQ(f.round.plan().revision(), 2u);
  EXPECT_EQ(f.Lose("b"), Verdict::kWait);  // known already
  EXPECT_EQ(f.Vote("a"), Verdict::kWait);
  EXPECT_EQ(f.Vote("c"), Verdict::kCommit);
}

// Would break: means that survivors hold are averaged anew, and cross the wire twice.
TEST(Ballot, ALostReducersShardIsFetchedFromAVoterThatHoldsIt) {
  Fixture f({"a", "b", "c"}, 2);
  v1::ShardsHeld held;
  held.set_version(5);
  held.set_epoch(1);  // of a former coordinator
  held.add_shards(0);
  held.add_attempts(1);
  f.round.OnShardsHeld("b", held);
  EXPECT_EQ(f.Vote("c"), Verdict::kWait);
  EXPECT_EQ(f.Lose("a"), Verdict::kRevised);
  EXPECT_EQ(f.round.plan().shards(0).holder(), "c");
  EXPECT_EQ(f.round.plan().shards(0).attempt(), 1u);
  EXPECT_EQ(f.Vote("b"), Verdict::kWait);
  EXPECT_EQ(f.Vote("c"), Verdict::kCommit);
}

// Would break: a death after the work was done costs the round a second exchange.
TEST(Ballot, ADeathDecidesIfAllOthersHaveVoted) {
  Fixture f({"a", "b", "c"}, 2);
  f.Vote("a");
  f.Vote("b");
  EXPECT_EQ(f.Lose("c"), Verdict::kCommit);
  Fixture with_vote({"a", "b", "c"}, 3);
  with_vote.Vote("a");
  with_vote.Vote("b");
  with_vote.Lose("c");
  EXPECT_EQ(with_vote.last.verdict, Verdict::kGiveUp);  // two of three is no quorum here
}

// Would break: an entry that nobody alive holds is committed.
TEST(Ballot, TheLastVoterMustBeAlive) {
  Fixture f({"a", "b"}, 1);
  f.Vote("a");
  EXPECT_EQ(f.Lose("a"), Verdict::kRevised);
  EXPECT_EQ(f.Lose("b"), Verdict::kGiveUp);
}

// Would break: a reducer that only the coordinator can reach stops the exchange.
TEST(Ballot, AnUnreachableReducerLosesItsShardsAndStaysAContributor) {
  Fixture f({"a", "b", "c"}, 2);
  EXPECT_EQ(f.Unreachable("a", "a"), Verdict::kWait);
  EXPECT_EQ(f.Unreachable("a", "c"), Verdict::kRevised);
  EXPECT_EQ(f.Shards(), "0+4:a/1 4+4:b/1 8+4:b/2 ");
  EXPECT_EQ(f.round.plan().lost_size(), 0);
  EXPECT_TRUE(f.round.unreachable().empty()) << "one word is not enough";
  EXPECT_EQ(f.Unreachable("b", "c"), Verdict::kWait) << "c serves nothing any more";
  EXPECT_THAT(f.round.unreachable(), ElementsAre("c"));
  EXPECT_EQ(f.Unreachable("c", "b"), Verdict::kRevised);
  EXPECT_EQ(f.Shards(), "0+4:a/1 4+4:a/2 8+4:a/3 ");
}

// Would break: a peer that accuses the others one after another ends as the sole reducer, and
// averages what it likes.
TEST(Ballot, AnAccuserGainsNothingByIt) {
  Fixture f({"a", "b", "c", "d"}, 3);
  EXPECT_EQ(f.Unreachable("d", "a"), Verdict::kRevised);
  for (const v1::Shard& shard : f.round.plan().shards()) EXPECT_NE(shard.reducer(), "a");
  EXPECT_EQ(f.Shards().find("d/2"), std::string::npos) << f.Shards();
  EXPECT_THAT(f.last.probes, ElementsAre("a"));
  // A second one is one too many: what it cannot reach is the others' exchange.
  EXPECT_EQ(f.Unreachable("d", "b"), Verdict::kRevised);
  EXPECT_THAT(f.round.plan().lost(), ElementsAre("d"));
  for (const v1::Shard& shard : f.round.plan().shards()) EXPECT_NE(shard.reducer(), "d");
  EXPECT_TRUE(f.round.unreachable().empty());
  for (const char* peer : {"a", "b"}) EXPECT_EQ(f.Vote(peer), Verdict::kWait);
  EXPECT_EQ(f.Vote("c"), Verdict::kCommit);
}

// Would break: an accusation that is true is taken for a lie, and its maker pays for it.
TEST(Ballot, WhatTheCoordinatorFindsTooIsBelieved) {
  Fixture f({"a", "b", "c", "d"}, 3);
  ASSERT_EQ(f.Unreachable("d", "a"), Verdict::kRevised);
  EXPECT_EQ(f.round.Unconfirmed().size(), 1u);
  f.last = f.round.OnProbed("a", true);
  EXPECT_TRUE(f.round.unreachable().empty()) << "it answered";
  f.last = f.round.OnProbed("a", false);
  EXPECT_THAT(f.round.unreachable(), ElementsAre("a"));
  EXPECT_TRUE(f.round.Unconfirmed().empty());
  EXPECT_EQ(f.round.OnProbed("b", false).verdict, Verdict::kWait);
  EXPECT_THAT(f.round.unreachable(), ElementsAre("a")) << "nobody has accused b";
}

// Would break: one that is needed, and truly reaches nobody, stops the run.
TEST(Ballot, OneThatTheQuorumNeedsReducesForItself) {
  Fixture f({"a", "b"}, 2);
  EXPECT_EQ(f.Unreachable("a", "b"), Verdict::kRevised);
  EXPECT_EQ(f.Shards(), "0+6:a/1 6+6:a/2 ");
  EXPECT_EQ(f.round.plan().lost_size(), 0);
  EXPECT_EQ(f.Unreachable("b", "a"), Verdict::kWait) << "they would take turns for ever";
}

// Would break: a reducer that leaves the others out has its own update committed as the mean of
// all, for rounds on end.
TEST(Ballot, NothingIsCommittedThatCountsFewerThanTheQuorum) {
  Fixture f({"a", "b", "c"}, 2);
  v1::Vote thin = f.MakeVote();
  *thin.mutable_records() = RecordsOf(
      {{"a", {{4, "\x07"}}}, {"b", {{1, "\x07"}, {1, "\x02"}, {2, "\x07"}}}, {"c", {{4, "\x07"}}}});
  for (const char* peer : {"a", "b"}) EXPECT_EQ(f.Vote(peer, thin), Verdict::kWait);
  EXPECT_EQ(f.Vote("c", thin), Verdict::kRevised);
  EXPECT_THAT(f.last.errors, ElementsAre(HasSubstr("fewer contributors than the quorum of 2")));
  EXPECT_EQ(f.Shards().find("4+4:b"), std::string::npos) << "another redoes it: " << f.Shards();
  EXPECT_THAT(f.round.thin(), ElementsAre("b"));
  // Of the same again nothing can be made.
  thin = f.MakeVote();
  *thin.mutable_records() = RecordsOf(f.round.plan(), "\x01");
  for (const char* peer : {"a", "b"}) f.Vote(peer, thin);
  EXPECT_EQ(f.Vote("c", thin), Verdict::kGiveUp);
}

// Would break: a holder that lacks a mean and is asked by nobody waits for itself until the
// deadline.
TEST(Ballot, AHolderThatLacksAMeanGivesTheShardBack) {
  Fixture f({"a", "b", "c"}, 2);
  v1::ShardsHeld held;
  held.set_version(5);
  held.set_epoch(2);
  held.add_shards(2);
  held.add_attempts(1);
  f.round.OnShardsHeld("a", held);
  EXPECT_EQ(f.Unreachable("a", "a"), Verdict::kWait) << "it holds nothing for others";
  ASSERT_EQ(f.Lose("c"), Verdict::kRevised);
  ASSERT_EQ(f.round.plan().shards(2).holder(), "a");
  const uint32_t revision = f.round.plan().revision();
  ASSERT_EQ(f.Unreachable("a", "a"), Verdict::kRevised);
  EXPECT_EQ(f.round.plan().revision(), revision + 1);
  EXPECT_EQ(f.round.plan().shards(2).holder(), "");
  EXPECT_EQ(f.round.plan().shards(2).attempt(), 2u);
  EXPECT_EQ(f.Shards(), "0+4:a/1 4+4:b/1 8+4:b/2 ") << "what it reduces stays";
  EXPECT_TRUE(f.round.unreachable().empty()) << "it is no worse a reducer";
  ASSERT_EQ(f.last.events.size(), 1u);
  EXPECT_THAT(f.last.events[0], HasSubstr("lacks a mean"));
  EXPECT_EQ(f.Unreachable("a", "a"), Verdict::kWait);
}

// Would break: another peer has all of the shard, and it would be averaged again.
TEST(Ballot, AnotherHolderTakesWhatAHolderLacks) {
  Fixture f({"a", "b", "c"}, 2);
  v1::ShardsHeld held;
  held.set_version(5);
  held.set_epoch(2);
  held.add_shards(2);
  held.add_attempts(1);
  f.round.OnShardsHeld("a", held);
  f.round.OnShardsHeld("b", held);
  ASSERT_EQ(f.Lose("c"), Verdict::kRevised);
  const std::string first = f.round.plan().shards(2).holder();
  ASSERT_EQ(f.Unreachable(first, first), Verdict::kRevised);
  EXPECT_EQ(f.round.plan().shards(2).holder(), first == "a" ? "b" : "a");
  EXPECT_EQ(f.round.plan().shards(2).attempt(), 1u);
}

// Would break: a replica that has drifted gets its state into the history.
TEST(Ballot, AVoterWithAnotherStateIsNamedAndNotCounted) {
  Fixture f({"a", "b", "c"}, 2);
  EXPECT_EQ(f.Vote("a", f.MakeVote('p', std::string(32, 'x'))), Verdict::kWait);
  EXPECT_EQ(f.Vote("b"), Verdict::kWait);
  EXPECT_TRUE(f.last.errors.empty());  // one against one: nobody knows yet
  EXPECT_EQ(f.Vote("c"), Verdict::kCommit);
  ASSERT_EQ(f.last.errors.size(), 1u);
  EXPECT_THAT(f.last.errors[0], HasSubstr("peer a"));
  EXPECT_THAT(f.round.voters(), ElementsAre("b", "c"));
  EXPECT_EQ(f.round.agreement().state_digest(), kState);
}

// Would break: a malformed vote reaches the header.
TEST(Ballot, SaysWhoseStateIsInDoubt) {
  // Broken: where the quorum needs a peer that has drifted, the run would stand still for ever, or
  // one whose state is right would be told to take another's.
  const std::string other(32, 'o');
  Fixture three({"a", "b", "c"}, 3);
  EXPECT_TRUE(three.round.Doubted().empty());
  three.Vote("a", three.MakeVote());
  three.Vote("c", three.MakeVote());
  EXPECT_TRUE(three.round.Doubted().empty());
  three.Vote("b", three.MakeVote('p', other));
  EXPECT_EQ(three.round.OnDeadline().verdict, Verdict::kGiveUp);
  EXPECT_EQ(three.round.Doubted(), (std::map<std::string, std::string>{{"b", kState}}));
  Fixture two({"a", "b"}, 2);
  two.Vote("a", two.MakeVote());
  two.Vote("b", two.MakeVote('p', other));
  EXPECT_EQ(two.round.Doubted(), (std::map<std::string, std::string>{{"a", ""}, {"b", ""}}));
}

// Would break: whoever delivers every second chunk and dies makes records that fit no message, and
// with them the sessions of all that vote.
TEST(Ballot, RecordsThatFitNoVoteAreRedoneOnce) {
  Fixture f({"a", "b", "c"}, 2);
  v1::Vote without = f.MakeVote();
  without.clear_records();
  for (const char* peer : {"a", "b"}) EXPECT_EQ(f.Vote(peer, without), Verdict::kWait);
  EXPECT_EQ(f.Vote("c", without), Verdict::kRevised);
  EXPECT_THAT(f.last.errors, ElementsAre(HasSubstr("more than a vote may say")));
  EXPECT_EQ(f.Shards(), "0+4:b/2 4+4:c/2 8+4:a/2 ");
  without = f.MakeVote();
  without.clear_records();
  for (const char* peer : {"a", "b"}) f.Vote(peer, without);
  EXPECT_EQ(f.Vote("c", without), Verdict::kGiveUp);
}

// One peer alone does not bring that about.
TEST(Ballot, OneVoteWithoutRecordsIsNoneOfTheOthers) {
  Fixture f({"a", "b", "c"}, 2);
  v1::Vote without = f.MakeVote();
  without.clear_records();
  f.Vote("a", without);
  EXPECT_EQ(f.Vote("b"), Verdict::kRevised) << "two results, as any others";
}

TEST(Ballot, RefusesVotesThatDoNotFitThePlan) {
  Fixture f({"a", "b", "c"}, 2);
  const auto refused = [&](auto change) {
    v1::Vote vote = f.MakeVote();
    change(&vote);
    Ballot::Outcome outcome;
    return f.round.OnVote("a", vote, &outcome).code() == absl::StatusCode::kInvalidArgument;
  };
  EXPECT_TRUE(refused([](v1::Vote* vote) { vote->set_payload_digest("short"); }));
  EXPECT_TRUE(refused([](v1::Vote* vote) { vote->clear_state_digest(); }));
  EXPECT_TRUE(
      refused([](v1::Vote* vote) { vote->mutable_records()->mutable_shards()->RemoveLast(); }));
  const auto shard = [](v1::Vote* vote) { return vote->mutable_records()->mutable_shards(1); };
  const auto set = [](v1::Vote* vote) { return vote->mutable_records()->mutable_sets(0); };
  EXPECT_TRUE(refused([&](v1::Vote* vote) { shard(vote)->set_reducer("a"); }));
  EXPECT_TRUE(refused([&](v1::Vote* vote) {
    vote->mutable_records()->add_sets()->set_contributors(std::string(kMostMeanRecordsBytes, 'x'));
  }));
  EXPECT_TRUE(refused([&](v1::Vote* vote) { shard(vote)->set_chunks(5); }));
  EXPECT_TRUE(refused([&](v1::Vote* vote) { set(vote)->set_contributors("\x0f"); }));
  EXPECT_TRUE(refused([&](v1::Vote* vote) { set(vote)->set_contributors(std::string(1, '\0')); }));
  EXPECT_TRUE(refused([&](v1::Vote* vote) { set(vote)->set_contributors("\x07\x01"); }));
  const auto split = [&](uint32_t before, uint32_t after) {
    return refused([&](v1::Vote* vote) {
      *vote->mutable_records() = RecordsOf({{"a", {{4, "\x07"}}},
                                            {"b", {{before, "\x07"}, {1, "\x01"}, {after, "\x07"}}},
                                            {"c", {{4, "\x07"}}}});
    });
  };
  EXPECT_TRUE(split(1, 1));
  EXPECT_TRUE(split(2, 2));
  EXPECT_FALSE(split(1, 2));
}

// -----------------------------------------------------------------------------------------------
// Ballot, where peers come to different results.

// Would break: a corrupting reducer splits the replicas.
TEST(Ballot, TwoResultsAreRedoneElsewhereAndNamed) {
  Fixture f({"a", "b", "c"}, 2);
  EXPECT_EQ(f.Vote("a", 'p'), Verdict::kWait);
  EXPECT_EQ(f.Vote("b", 'q'), Verdict::kRevised);
  ASSERT_EQ(f.last.errors.size(), 1u);
  EXPECT_THAT(f.last.errors[0], HasSubstr("a | b"));
  EXPECT_EQ(f.Shards(), "0+4:b/2 4+4:c/2 8+4:a/2 ");
  // Again: now the majority is taken, once all have said what they have.
  EXPECT_EQ(f.Vote("a", 'p'), Verdict::kWait);
  EXPECT_EQ(f.Vote("b", 'q'), Verdict::kWait);
  EXPECT_EQ(f.Vote("c", 'p'), Verdict::kCommit);
  EXPECT_THAT(f.round.voters(), ElementsAre("a", "c"));
}

// Would break: a reducer that tells one peer another mean in every attempt stops the run, though
// the quorum is there without it.
TEST(Ballot, AnEquivocatorIsFoundByDoingWithoutIt) {
  for (const std::string liar : {"a", "b", "c", "d"}) {
    Fixture f({"a", "b", "c", "d"}, 4);
    int revisions = 0;
    Verdict verdict = Verdict::kRevised;
    while (verdict == Verdict::kRevised) {
      ASSERT_LT(++revisions, 6) << liar;
      bool reduces = false;
      for (const v1::Shard& shard : f.round.plan().shards()) reduces |= shard.reducer() == liar;
      // Whoever it fools has another payload than the others.
      for (const char* peer : {"a", "b", "c", "d"}) {
        const bool fooled = reduces && std::string(peer) == (liar == "d" ? "a" : "d");
        verdict = f.Vote(peer, fooled ? 'q' : 'p');
        if (verdict != Verdict::kWait) break;
      }
    }
    EXPECT_EQ(verdict, Verdict::kCommit) << liar;
    EXPECT_EQ(f.round.unreachable().count(liar), 1u) << "it is not asked again soon";
    EXPECT_EQ(f.round.unreachable().size(), 2u);
    EXPECT_EQ(f.last.suspects.count(liar), 1u);
  }
}

// Would break: two peers that never agree keep the coordinator busy for ever.
TEST(Ballot, EndlessDisagreementEndsTheAttempt) {
  Fixture f({"a", "b"}, 2);
  int revisions = 0;
  for (;;) {
    ASSERT_LT(++revisions, 20);
    f.Vote("a", 'p');
    if (f.Vote("b", 'q') == Verdict::kGiveUp) break;
  }
}

}  // namespace
}  // namespace atolld
