// ExchangeRound, where peers come to different results.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/membership/run/exchange_round_fixture.h"

namespace atolld {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Fixture = ExchangeRoundFixture;
using Verdict = ExchangeRound::Verdict;

// Would break: a corrupting reducer splits the replicas.
TEST(ExchangeRound, TwoResultsAreRedoneElsewhereAndNamed) {
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
TEST(ExchangeRound, AnEquivocatorIsFoundByDoingWithoutIt) {
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
TEST(ExchangeRound, EndlessDisagreementEndsTheAttempt) {
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
