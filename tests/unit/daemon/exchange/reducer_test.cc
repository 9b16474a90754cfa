#include "daemon/exchange/reducer.h"

#include <vector>

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

ExchangePlan Made(const v1::Plan& plan) {
  return ExchangePlan::Make(plan, ChunkGrid(8, 2)).value();
}

Piece From(uint32_t contributor) {
  return Piece{contributor, SharedBytes(std::string(10, static_cast<char>(contributor))), true};
}

using Verdict = Reducer::Verdict;

// Would break: a mean over an incomplete set, or the same contribution twice.
TEST(Reducer, GivesOutAChunkOnceAllHaveDelivered) {
  Reducer reducer("a");
  std::vector<Reducer::Work> ready;
  reducer.Update(Made(TwoShards(1)), &ready);
  EXPECT_EQ(reducer.Add(0, 1, From(2), &ready), Verdict::kTaken);
  EXPECT_EQ(reducer.Add(0, 1, From(2), &ready), Verdict::kDuplicate);
  EXPECT_EQ(reducer.Add(0, 1, From(0), &ready), Verdict::kTaken);
  EXPECT_EQ(reducer.Add(2, 1, From(0), &ready), Verdict::kForeign);
  EXPECT_EQ(reducer.Add(9, 1, From(0), &ready), Verdict::kForeign);
  EXPECT_EQ(reducer.Add(0, 2, From(1), &ready), Verdict::kEarly);
  EXPECT_EQ(reducer.Add(0, 0, From(1), &ready), Verdict::kStale);
  EXPECT_TRUE(ready.empty());
  EXPECT_EQ(reducer.held_bytes(), 20u);
  EXPECT_EQ(reducer.Add(0, 1, From(1), &ready), Verdict::kTaken);
  ASSERT_EQ(ready.size(), 1u);
  ASSERT_EQ(ready[0].pieces.size(), 3u);
  for (uint32_t i = 0; i < 3; ++i) EXPECT_EQ(ready[0].pieces[i].contributor, i);
  EXPECT_EQ(reducer.held_bytes(), 0u);
  EXPECT_EQ(reducer.Add(0, 1, From(1), &ready), Verdict::kDuplicate);
  EXPECT_EQ(ready.size(), 1u);
}

// Would break: rounds with a death would wait for the dead, or forget what they had sent in time.
TEST(Reducer, CountsWhatALostContributorHadDelivered) {
  Reducer reducer("a");
  std::vector<Reducer::Work> ready;
  reducer.Update(Made(TwoShards(1)), &ready);
  reducer.Add(0, 1, From(0), &ready);
  reducer.Add(0, 1, From(2), &ready);
  reducer.Add(1, 1, From(0), &ready);
  reducer.Add(1, 1, From(1), &ready);
  v1::Plan next = TwoShards(2);
  next.add_lost("c");
  next.mutable_shards(1)->set_reducer("a");
  next.mutable_shards(1)->set_attempt(2);
  reducer.Update(Made(next), &ready);
  ASSERT_EQ(ready.size(), 1u);
  EXPECT_EQ(ready[0].chunk, 1u);
  EXPECT_EQ(ready[0].pieces.size(), 2u);
  reducer.Add(0, 1, From(1), &ready);
  ASSERT_EQ(ready.size(), 2u);
  EXPECT_EQ(ready[1].pieces.size(), 3u);
  EXPECT_TRUE(reducer.Current(2, 2));
  EXPECT_EQ(reducer.Add(2, 2, From(0), &ready), Verdict::kTaken);
  reducer.Refuse(1, &ready);
  ASSERT_EQ(ready.size(), 3u);
  EXPECT_EQ(ready[2].chunk, 2u);
  EXPECT_EQ(reducer.Add(3, 2, From(1), &ready), Verdict::kStale);
}

// Would break: a chunk of the attempt before would be averaged into the new one.
TEST(Reducer, BeginsAgainUnderANewAttempt) {
  Reducer reducer("a");
  std::vector<Reducer::Work> ready;
  reducer.Update(Made(TwoShards(1)), &ready);
  for (uint32_t i = 0; i < 3; ++i) reducer.Add(0, 1, From(i), &ready);
  reducer.Add(1, 1, From(0), &ready);
  ASSERT_EQ(ready.size(), 1u);
  v1::Plan next = TwoShards(2);
  next.mutable_shards(0)->set_attempt(2);
  reducer.Update(Made(next), &ready);
  EXPECT_FALSE(reducer.Current(0, 1));
  EXPECT_EQ(reducer.held_bytes(), 0u);
  for (uint32_t i = 0; i < 3; ++i) EXPECT_EQ(reducer.Add(0, 2, From(i), &ready), Verdict::kTaken);
  ASSERT_EQ(ready.size(), 2u);
  EXPECT_EQ(ready[1].attempt, 2u);
}

// Would break: two revisions that mean different things by (chunk, attempt) would be mixed.
TEST(ExchangePlan, RefusesARevisionThatBreaksItsLaw) {
  const ExchangePlan first = Made(TwoShards(1));
  v1::Plan next = TwoShards(2);
  EXPECT_TRUE(first.CheckSuccessor(Made(next)).ok());
  next.mutable_shards(0)->set_reducer("c");
  EXPECT_FALSE(first.CheckSuccessor(Made(next)).ok());
  next.mutable_shards(0)->set_attempt(2);
  EXPECT_TRUE(first.CheckSuccessor(Made(next)).ok());
  next.mutable_contributors(1)->set_weight_bits(0x40000000);
  EXPECT_FALSE(first.CheckSuccessor(Made(next)).ok());
  next = TwoShards(2);
  next.mutable_shards(0)->set_chunks(3);
  next.mutable_shards(1)->set_first_chunk(3);
  next.mutable_shards(1)->set_chunks(1);
  EXPECT_FALSE(first.CheckSuccessor(Made(next)).ok());
}

}  // namespace
}  // namespace atolld
