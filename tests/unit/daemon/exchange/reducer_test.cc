#include "daemon/exchange/reducer.h"

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/casts.h"
#include "compression/base/bitmap.h"
#include "compression/codec.h"
#include "daemon/exchange/contribution.h"
#include "gtest/gtest.h"

namespace atolld {
namespace {

v1::Plan TwoShards(uint32_t revision) {
  v1::Plan plan;
  plan.set_version(1);
  plan.set_epoch(1);
  plan.set_revision(revision);
  plan.set_parameters(8);
  for (const char* name : {"a", "b", "c"}) {
    v1::PlanMember* member = plan.add_contributors();
    member->set_peer(name);
    member->set_weight_bits(0x3f800000);
  }
  for (uint32_t i = 0; i < 2; ++i) {
    v1::Shard* shard = plan.add_shards();
    shard->set_first_chunk(2 * i);
    shard->set_chunks(2);
    shard->set_reducer(i == 0 ? "a" : "b");
    shard->set_attempt(1);
  }
  return plan;
}

ExchangePlan MadePlan(const v1::Plan& plan) {
  return ExchangePlan::Make(plan, ChunkGrid(8, 2)).value();
}

std::string Bits(const std::vector<uint32_t>& contributors) {
  std::string bitmap(1, '\0');
  for (const uint32_t i : contributors) SetBit(&bitmap, i);
  return bitmap;
}

Piece From(uint32_t contributor) {
  return Piece{contributor, Bits({contributor}), false,
               SharedBytes(std::string(10, static_cast<char>(contributor))), true};
}

// The books under test with what their owner would hear, and the revision that all senders follow.
struct Books {
  explicit Books(const std::string& self) : reducer(self) {}
  void Update(const v1::Plan& plan) {
    revision = plan.revision();
    reducer.Update(MadePlan(plan), &ready, &ask_again);
  }
  Reducer::Verdict Add(uint32_t chunk, uint32_t attempt, Piece piece) {
    return reducer.Add({chunk, attempt, revision}, std::move(piece), &ready);
  }
  Reducer reducer;
  uint32_t revision = 0;
  std::vector<Reducer::Work> ready;
  std::set<uint32_t> ask_again;
};

using Verdict = Reducer::Verdict;

// Would break: a mean over an incomplete set, or the same contribution twice.
TEST(Reducer, GivesOutAChunkOnceAllHaveDelivered) {
  Books books("a");
  books.Update(TwoShards(1));
  EXPECT_EQ(books.Add(0, 1, From(2)), Verdict::kTaken);
  EXPECT_EQ(books.Add(0, 1, From(2)), Verdict::kDuplicate);
  EXPECT_EQ(books.Add(0, 1, From(0)), Verdict::kTaken);
  EXPECT_EQ(books.Add(2, 1, From(0)), Verdict::kForeign);
  EXPECT_EQ(books.Add(9, 1, From(0)), Verdict::kForeign);
  EXPECT_EQ(books.Add(0, 2, From(1)), Verdict::kEarly);
  EXPECT_EQ(books.Add(0, 0, From(1)), Verdict::kStale);
  EXPECT_TRUE(books.ready.empty());
  EXPECT_EQ(books.reducer.held_bytes(), 20u);
  EXPECT_EQ(books.Add(0, 1, From(1)), Verdict::kTaken);
  ASSERT_EQ(books.ready.size(), 1u);
  ASSERT_EQ(books.ready[0].pieces.size(), 3u);
  for (uint32_t i = 0; i < 3; ++i) EXPECT_EQ(books.ready[0].pieces[i].sender, i);
  EXPECT_EQ(books.reducer.held_bytes(), 0u);
  EXPECT_EQ(books.Add(0, 1, From(1)), Verdict::kDuplicate);
  EXPECT_EQ(books.ready.size(), 1u);
}

// Would break: rounds with a death would wait for the dead, or forget what they had sent in time.
TEST(Reducer, CountsWhatALostContributorHadDelivered) {
  Books books("a");
  books.Update(TwoShards(1));
  books.Add(0, 1, From(0));
  books.Add(0, 1, From(2));
  books.Add(1, 1, From(0));
  books.Add(1, 1, From(1));
  v1::Plan next = TwoShards(2);
  next.add_lost("c");
  next.mutable_shards(1)->set_reducer("a");
  next.mutable_shards(1)->set_attempt(2);
  books.Update(next);
  ASSERT_EQ(books.ready.size(), 1u);
  EXPECT_EQ(books.ready[0].chunk, 1u);
  EXPECT_EQ(books.ready[0].pieces.size(), 2u);
  books.Add(0, 1, From(1));
  ASSERT_EQ(books.ready.size(), 2u);
  EXPECT_EQ(books.ready[1].pieces.size(), 3u);
  EXPECT_EQ(books.Add(2, 2, From(0)), Verdict::kTaken);
  books.reducer.Refuse(1, &books.ready);
  ASSERT_EQ(books.ready.size(), 3u);
  EXPECT_EQ(books.ready[2].chunk, 2u);
  EXPECT_EQ(books.Add(3, 2, From(1)), Verdict::kStale);
}

// Would break: a chunk of the attempt before would be averaged into the new one.
TEST(Reducer, BeginsAgainUnderANewAttempt) {
  Books books("a");
  books.Update(TwoShards(1));
  for (uint32_t i = 0; i < 3; ++i) books.Add(0, 1, From(i));
  books.Add(1, 1, From(0));
  ASSERT_EQ(books.ready.size(), 1u);
  v1::Plan next = TwoShards(2);
  next.mutable_shards(0)->set_attempt(2);
  books.Update(next);
  EXPECT_FALSE(books.reducer.Current(books.ready[0]));
  EXPECT_EQ(books.reducer.held_bytes(), 0u);
  for (uint32_t i = 0; i < 3; ++i) EXPECT_EQ(books.Add(0, 2, From(i)), Verdict::kTaken);
  ASSERT_EQ(books.ready.size(), 2u);
  EXPECT_EQ(books.ready[1].attempt, 2u);
}

// Three contributors; a reduces, and c relays for itself and b.
v1::Plan Relayed(uint32_t revision) {
  v1::Plan plan = TwoShards(revision);
  for (v1::PlanMember& member : *plan.mutable_contributors()) member.set_address("here:1");
  plan.mutable_shards(1)->set_reducer("a");
  for (v1::Shard& shard : *plan.mutable_shards()) {
    v1::Relay* relay = shard.add_relays();
    relay->set_peer("c");
    relay->set_members(Bits({1, 2}));
  }
  return plan;
}

Piece Partial(uint32_t relay, const std::vector<uint32_t>& contributors) {
  Piece piece = From(relay);
  piece.contributors = Bits(contributors);
  piece.partial = true;
  return piece;
}

// Would break: a relay would send a mean without some of its members, or never.
TEST(Reducer, ARelayWaitsForItsMembersAlone) {
  Books books("c");
  books.Update(Relayed(1));
  EXPECT_EQ(books.Add(0, 1, From(0)), Verdict::kForeign);
  EXPECT_EQ(books.Add(0, 1, From(2)), Verdict::kTaken);
  EXPECT_TRUE(books.ready.empty());
  EXPECT_EQ(books.Add(0, 1, From(1)), Verdict::kTaken);
  ASSERT_EQ(books.ready.size(), 1u);
  EXPECT_TRUE(books.ready[0].partial);
  EXPECT_EQ(books.ready[0].pieces.size(), 2u);
  EXPECT_EQ(books.ready[0].pieces[0].sender, 1u);
  books.Add(1, 1, From(2));
  v1::Plan next = Relayed(2);
  next.add_lost("b");
  books.Update(next);
  ASSERT_EQ(books.ready.size(), 2u);
  EXPECT_EQ(books.ready[1].pieces.size(), 1u);
  EXPECT_EQ(books.reducer.held_bytes(), 0u);
}

// Would break: what members sent to a relay would lie there after the round's end, when the reducer
// had them from another relay that has died since.
TEST(Reducer, LetsGoOfAChunkWhoseResultIsHere) {
  Books books("c");
  books.Update(Relayed(1));
  books.Add(0, 1, From(1));
  books.reducer.Close(0);
  EXPECT_EQ(books.reducer.held_bytes(), 0u);
  EXPECT_EQ(books.Add(0, 1, From(2)), Verdict::kDuplicate);
  books.Update(Relayed(2));
  EXPECT_EQ(books.Add(0, 1, From(2)), Verdict::kDuplicate);
  EXPECT_TRUE(books.ready.empty());
}

// Would break: pieces would be summed in another order than the one that everybody can repeat.
TEST(Reducer, AveragesPiecesByTheirLowestContributor) {
  Books books("a");
  books.Update(Relayed(1));
  EXPECT_EQ(books.Add(0, 1, Partial(2, {1, 2})), Verdict::kTaken);
  EXPECT_TRUE(books.ready.empty());
  EXPECT_EQ(books.Add(0, 1, Partial(2, {1, 2})), Verdict::kDuplicate);
  EXPECT_EQ(books.Add(0, 1, From(0)), Verdict::kTaken);
  ASSERT_EQ(books.ready.size(), 1u);
  EXPECT_FALSE(books.ready[0].partial);
  EXPECT_EQ(books.ready[0].pieces[0].sender, 0u);
  EXPECT_EQ(books.ready[0].pieces[1].sender, 2u);
}

// Would break: the law of trees: nobody counts twice, whatever relays claim.
TEST(Reducer, NeverTakesTwoPiecesOfOneContributor) {
  Books books("a");
  v1::Plan flat = Relayed(1);
  for (v1::Shard& shard : *flat.mutable_shards()) shard.clear_relays();
  flat.add_lost("b");  // what it had delivered stands, whatever group it is in later
  books.Update(flat);
  EXPECT_EQ(books.Add(0, 1, From(1)), Verdict::kTaken);
  v1::Plan next = Relayed(2);
  next.add_lost("b");
  books.Update(next);
  EXPECT_EQ(books.Add(0, 1, Partial(2, {1, 2})), Verdict::kOverlapping);
  // c itself is then not waited for: its relay has sent all that it will ever send.
  EXPECT_TRUE(books.ready.empty());
  EXPECT_EQ(books.Add(0, 1, From(0)), Verdict::kTaken);
  ASSERT_EQ(books.ready.size(), 1u);
  EXPECT_EQ(books.ready[0].pieces.size(), 2u);
  EXPECT_EQ(books.ready[0].pieces[1].sender, 1u);
  // A relay speaks for its own group alone.
  EXPECT_EQ(books.Add(1, 1, Partial(2, {0, 2})), Verdict::kOverlapping);
  EXPECT_EQ(books.reducer.held_bytes(), 0u);
}

// Would break: a chunk that a relay refused would be waited for at the reducer until the deadline.
TEST(Reducer, DoesNotWaitForWhomARelayLeavesOut) {
  Books books("a");
  books.Update(Relayed(1));
  books.Add(0, 1, From(0));
  books.Add(1, 1, From(0));
  EXPECT_EQ(books.Add(0, 1, Partial(2, {2})), Verdict::kTaken);
  ASSERT_EQ(books.ready.size(), 1u);
  EXPECT_EQ(books.ready[0].pieces.size(), 2u);
  // Nor for the members of a relay that lies.
  books.reducer.Refuse(2, &books.ready);
  ASSERT_EQ(books.ready.size(), 2u);
  EXPECT_EQ(books.ready[1].chunk, 1u);
  EXPECT_EQ(books.ready[1].pieces.size(), 1u);
}

// Would break: a chunk that takes another way under a new revision would be lost between the two,
// and the round would hang.
TEST(Reducer, AsksAgainForWhatItDidNotKeep) {
  Books books("a");
  v1::Plan flat = Relayed(2);
  for (v1::Shard& shard : *flat.mutable_shards()) shard.clear_relays();
  v1::Plan flat_again = flat;
  flat_again.set_revision(4);
  books.Update(Relayed(1));
  // b has heard of revision 2, where c relays no more.
  EXPECT_EQ(books.reducer.Add({0, 1, 2}, From(1), &books.ready), Verdict::kEarly);
  books.Update(flat);
  EXPECT_EQ(books.reducer.Add({0, 1, 2}, From(1), &books.ready), Verdict::kTaken);
  // From here on b's chunks come through c; its own is let go, and one under way passed over.
  books.Update(Relayed(3));
  EXPECT_EQ(books.reducer.held_bytes(), 0u);
  EXPECT_EQ(books.reducer.Add({1, 1, 2}, From(1), &books.ready), Verdict::kPassedOver);
  EXPECT_TRUE(books.ask_again.empty());
  books.Update(flat_again);
  EXPECT_EQ(books.ask_again, (std::set<uint32_t>{1}));

  Books relay("c");
  relay.Update(Relayed(1));
  relay.Add(0, 1, From(1));
  relay.Update(flat);
  EXPECT_EQ(relay.reducer.held_bytes(), 0u);
  EXPECT_TRUE(relay.ask_again.empty());
  relay.Update(Relayed(3));
  EXPECT_EQ(relay.ask_again.count(1), 1u);
}

// Would break: a contributor could have other bytes averaged than those that it has signed, or
// send more than a chunk can be.
TEST(PieceIntake, TakesWhatFitsThePlanAndTheSignedRoot) {
  const ChunkGrid grid(8, 2);
  const ChunkForm form{*FindCodec("fp32"), false};
  const std::vector<float> values = {1, 2, 3, 4, 5, 6, 7, 8};
  const auto given = EncodeContribution(grid, *form.codec, Rounding(), values);
  ASSERT_TRUE(given.ok());
  v1::Plan plan = TwoShards(1);
  plan.mutable_contributors(2)->set_contribution_root(ToBytes(given->root));
  plan.mutable_contributors(2)->set_squared_norm_bits(
      absl::bit_cast<uint64_t>(SquaredNormOf(given->leaves)));
  const ExchangePlan made = MadePlan(plan);
  PieceIntake intake("run", grid, form, form);
  v1::ContributionChunk chunk;
  chunk.set_chunk(1);
  EXPECT_FALSE(intake.MakePiece(made, 2, chunk, given->chunks[1]).ok()) << "before its leaves";
  std::string forged = given->leaves;
  forged.back() ^= 1;
  EXPECT_TRUE(absl::IsInvalidArgument(intake.TakeLeaves(made, 2, forged)));
  EXPECT_EQ(intake.LeavesOf(2), nullptr);
  ASSERT_TRUE(intake.TakeLeaves(made, 2, given->leaves).ok());
  EXPECT_TRUE(intake.TakeLeaves(made, 2, forged).ok()) << "passed over";
  EXPECT_EQ(intake.LeavesOf(2)->bytes, given->leaves);

  const absl::StatusOr<Piece> piece = intake.MakePiece(made, 2, chunk, given->chunks[1]);
  ASSERT_TRUE(piece.ok()) << piece.status();
  EXPECT_EQ(piece->contributors, Bits({2}));
  EXPECT_EQ(piece->digest, given->digests[1]);
  EXPECT_EQ(piece->squared_norm, given->norms[1].squared_norm);
  EXPECT_EQ(piece->bytes.data(), given->chunks[1].data()) << "copied";

  EXPECT_FALSE(intake.MakePiece(made, 2, chunk, SharedBytes()).ok());
  EXPECT_FALSE(intake.MakePiece(made, 2, chunk, SharedBytes(std::string(1000, 'x'))).ok());
  chunk.set_contributors("too long a bitmap");
  EXPECT_FALSE(intake.MakePiece(made, 2, chunk, given->chunks[1]).ok());
  chunk.clear_contributors();
  chunk.set_chunk(4);
  EXPECT_FALSE(intake.MakePiece(made, 2, chunk, given->chunks[1]).ok());
}

}  // namespace
}  // namespace atolld
