// Thin means in a run whose peers own experts: a chunk needs the quorum, or all owners of its
// expert that are there if these are fewer.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "membership/run/ballot.h"
#include "tests/unit/membership/history/records_text.h"

namespace atolld {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::string kNoVoter(1, '\0');

// Four contributors a, b, c and d, a quorum of 3, and 8 chunks: 4 are shared, 2 belong to expert 0,
// which a and b own, and 2 belong to expert 1, which nobody owns.
struct OwnersBallot {
  OwnersBallot() : ballot(Terms(), Contributors()) {}

  static ExchangeTerms Terms() {
    ExchangeTerms terms;
    terms.version = 5;
    terms.epoch = 2;
    terms.parameters = 8 * 16;
    terms.chunk_elements = 16;
    terms.grid = ChunkGrid(8 * 16, 16,
                           std::make_shared<const std::vector<uint32_t>>(
                               std::vector<uint32_t>{0, 0, 0, 0, 1, 1, 2, 2}));
    terms.quorum = 3;
    terms.deadline = absl::Seconds(10);
    return terms;
  }
  static std::vector<ExchangeContributor> Contributors() {
    std::vector<ExchangeContributor> contributors;
    for (const char* peer : {"a", "b", "c", "d"}) {
      ExchangeContributor contributor;
      contributor.member.set_peer(peer);
      contributor.member.set_address(std::string(peer) + ":1");
      contributor.member.set_owned(std::string(1, *peer <= 'b' ? '\1' : '\0'));
      contributors.push_back(contributor);
    }
    return contributors;
  }

  // Lets all who are there vote for means with these sets, one for each chunk.
  Ballot::Verdict VoteFor(const std::vector<std::string>& sets) {
    MeanRecordsBuilder builder;
    for (const v1::Shard& shard : ballot.plan().shards()) {
      builder.BeginShard(shard.first_chunk(), shard.reducer());
      for (uint32_t i = 0; i < shard.chunks(); ++i) {
        builder.Add(sets[shard.first_chunk() + i], {});
      }
    }
    v1::Vote vote;
    vote.set_version(5);
    vote.set_epoch(2);
    vote.set_revision(ballot.plan().revision());
    vote.set_payload_digest(std::string(32, 'p'));
    vote.set_state_digest(std::string(32, 's'));
    *vote.mutable_records() = builder.Take();
    for (const std::string& peer : ballot.Voters()) {
      last = Ballot::Outcome();
      const absl::Status taken = ballot.OnVote(peer, vote, &last);
      EXPECT_TRUE(taken.ok()) << taken;
      if (last.verdict != Ballot::Verdict::kWait) break;
    }
    return last.verdict;
  }

  Ballot ballot;
  Ballot::Outcome last;
};

// The last shared chunk and the last one of expert 0 have these sets, all others full ones.
std::vector<std::string> SetsWith(const std::string& shared, const std::string& owned) {
  return {"\x0f", "\x0f", "\x0f", shared, "\x03", owned, kNoVoter, kNoVoter};
}

// Broken: no entry of a run with fewer owners than the quorum would ever be committed.
TEST(BallotExperts, AllOwnersAreEnough) {
  OwnersBallot round;
  EXPECT_EQ(round.VoteFor(SetsWith("\x07", "\x03")), Ballot::Verdict::kCommit);
  EXPECT_THAT(round.ballot.thin(), IsEmpty());
}

// Broken: a reducer that leaves an owner out would have its own update committed as the mean of all
// owners.
TEST(BallotExperts, AMeanWithoutOneOfItsOwnersIsThin) {
  for (const std::string& counted : {std::string("\x01"), std::string("\x02"), kNoVoter}) {
    OwnersBallot round;
    const std::string reducer = round.ballot.plan().shards(2).reducer();
    EXPECT_EQ(round.VoteFor(SetsWith("\x0f", counted)), Ballot::Verdict::kRevised);
    EXPECT_THAT(round.last.errors, ElementsAre(HasSubstr("fewer contributors")));
    EXPECT_THAT(round.ballot.thin(), ElementsAre(reducer));
  }
}

// Broken: shared values would be committed as the mean of a few because experts have few owners.
TEST(BallotExperts, ASharedChunkNeedsTheQuorum) {
  OwnersBallot round;
  EXPECT_EQ(round.VoteFor(SetsWith("\x03", "\x03")), Ballot::Verdict::kRevised);
  EXPECT_THAT(round.ballot.thin(), ElementsAre(round.ballot.plan().contributors(1).peer()));
}

// Broken: after the death of an owner every entry would count as thin, and the attempt end.
TEST(BallotExperts, ALostOwnerIsNotMissed) {
  OwnersBallot round;
  const std::string lost[] = {"b"};
  round.ballot.OnLost(lost);
  ASSERT_TRUE(round.ballot.Lost("b"));
  const std::string three = "\x0d";
  EXPECT_EQ(round.VoteFor({three, three, three, three, "\x01", "\x01", kNoVoter, kNoVoter}),
            Ballot::Verdict::kCommit);
}

}  // namespace
}  // namespace atolld
