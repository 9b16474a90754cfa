#include "worker/base/merge_point.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/base/casts.h"

namespace atolld {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

v1::Merge MergeOf(uint64_t version) {
  v1::Merge merge;
  merge.set_version(version);
  return merge;
}

v1::TrainSteps Awaiting(uint64_t version, uint32_t after) {
  v1::TrainSteps train;
  train.set_merge_version(version);
  train.set_merge_after(after);
  return train;
}

std::vector<uint64_t> VersionsOf(const std::vector<v1::Merge>& merges) {
  std::vector<uint64_t> versions;
  for (const v1::Merge& merge : merges) versions.push_back(merge.version());
  return versions;
}

// Broken: a worker would train past the step at which an entry is to be merged, or merge it before.
TEST(MergePointTest, AMergeIsDoneAtItsStepWhicheverComesFirst) {
  for (const bool early : {true, false}) {
    MergePoint point;
    point.Begin(Awaiting(5, 3), true);
    EXPECT_EQ(point.StepsBefore(10), 3u);
    if (early) {
      point.Add(MergeOf(5));
      EXPECT_THAT(point.Take(2, 10), ElementsAre());
    }
    EXPECT_FALSE(point.Waits(2, 10));
    EXPECT_EQ(point.Waits(3, 10), !early);
    if (!early) {
      EXPECT_THAT(point.Take(3, 10), ElementsAre());
      point.Add(MergeOf(5));
    }
    EXPECT_FALSE(point.Waits(3, 10));
    EXPECT_THAT(VersionsOf(point.Take(3, 10)), ElementsAre(5));
    EXPECT_FALSE(point.Waits(10, 10));
    EXPECT_EQ(point.StepsBefore(10), 10u);
  }
}

// Broken: an update would be handed over that still has the one before in it, since the round had
// fewer steps than its merge was to wait for.
TEST(MergePointTest, AShortRoundMergesBeforeItsEnd) {
  MergePoint point;
  point.Begin(Awaiting(5, 8), true);
  EXPECT_FALSE(point.Waits(3, 4));
  EXPECT_TRUE(point.Waits(4, 4));
  point.Add(MergeOf(5));
  EXPECT_THAT(VersionsOf(point.Take(4, 4)), ElementsAre(5));
}

// Broken: what a snapshot led past would be waited for for ever; or an entry of an earlier training
// would be taken for the awaited one, and that one be merged at a wrong step.
TEST(MergePointTest, LaterOnesCountAndOlderOnesAreDoneAtOnce) {
  MergePoint point;
  point.Begin(Awaiting(5, 3), true);
  point.Add(MergeOf(4));
  EXPECT_THAT(VersionsOf(point.Take(1, 10)), ElementsAre(4));
  EXPECT_TRUE(point.Waits(3, 10));
  point.Add(MergeOf(7));
  EXPECT_FALSE(point.Waits(3, 10));
  EXPECT_THAT(VersionsOf(point.Take(3, 10)), ElementsAre(7));
}

// Broken: a training that is told after the merge that it names would never end.
TEST(MergePointTest, WhatWasMergedBeforeIsNotWaitedFor) {
  MergePoint point;
  point.Add(MergeOf(5));
  EXPECT_THAT(VersionsOf(point.Take(0, 0)), ElementsAre(5));  // no training: at once
  point.Begin(Awaiting(5, 3), true);
  EXPECT_FALSE(point.Waits(3, 10));
  point.Begin(Awaiting(6, 3), true);
  EXPECT_TRUE(point.Waits(3, 10));
}

// Broken: a training that is replaced would lose what was still to be merged into its parameters;
// or one that starts from theta would merge what is in it.
TEST(MergePointTest, WhatWaitsStaysWithTheParameters) {
  MergePoint point;
  point.Begin(Awaiting(5, 3), true);
  point.Add(MergeOf(5));
  point.Begin(Awaiting(6, 3), true);
  EXPECT_THAT(VersionsOf(point.Take(0, 10)), ElementsAre(5));
  point.Add(MergeOf(6));
  point.Begin(Awaiting(6, 3), false);
  EXPECT_FALSE(point.Waits(3, 10));
  EXPECT_THAT(point.Take(3, 10), ElementsAre());
}

// Broken: peers would go on from other values than worker.proto says. All numbers are exact in
// fp32 but the thirds, whose bits were computed apart (numpy, float32).
TEST(MergeIntoTest, MixesTheRangesAndLeavesTheRest) {
  std::vector<float> base = {1, 2, 3, 4, 5}, parameters = {10, 20, 30, 40, 50};
  const std::vector<float> theta = {0, 4, 8, 12, 16};
  v1::Merge merge = MergeOf(2);
  merge.set_own_share_bits(absl::bit_cast<uint32_t>(0.25f));
  for (const uint64_t first : {1, 4}) {
    v1::ValueRange* const range = merge.add_ranges();
    range->set_first(first);
    range->set_count(1);
  }
  ASSERT_TRUE(MergeInto(merge, theta, absl::MakeSpan(base), absl::MakeSpan(parameters)).ok());
  EXPECT_THAT(parameters, ElementsAre(10, 8, 30, 40, 24.5f));
  EXPECT_THAT(base, ElementsAre(1, 4, 3, 4, 16));
  merge.clear_ranges();
  merge.set_own_share_bits(absl::bit_cast<uint32_t>(1.0f / 3));
  parameters = {0.1f, 0.7f, 0.3f, 0.9f, 1e-8f};
  const std::vector<float> others = {0.2f, 0.1f, -0.6f, 0.4f, 3.0f};
  ASSERT_TRUE(MergeInto(merge, others, absl::MakeSpan(base), absl::MakeSpan(parameters)).ok());
  std::vector<uint32_t> bits;
  for (const float value : parameters) bits.push_back(absl::bit_cast<uint32_t>(value));
  EXPECT_THAT(bits, ElementsAre(0x3e2aaaaau, 0x3e99999au, 0xbe99999au, 0x3f111111u, 0x3fffffffu));
  EXPECT_EQ(base, others);
}

// Broken: a peer whose update no entry took would lose what it learnt.
TEST(MergeIntoTest, ARebaseKeepsWhatWasLearnt) {
  std::vector<float> base = {1, 2, 3}, parameters = {10, 20, 30};
  const std::vector<float> theta = {5, 5, 5};
  v1::Merge merge = MergeOf(2);
  merge.set_rebase(true);
  v1::ValueRange* const range = merge.add_ranges();
  range->set_first(1);
  range->set_count(2);
  ASSERT_TRUE(MergeInto(merge, theta, absl::MakeSpan(base), absl::MakeSpan(parameters)).ok());
  EXPECT_THAT(parameters, ElementsAre(10, 23, 32));
  EXPECT_THAT(base, ElementsAre(1, 5, 5));
}

// Broken: a wrong order would write outside the vectors, or make values that are none.
TEST(MergeIntoTest, RefusesWhatCannotBe) {
  std::vector<float> base = {1, 2, 3}, parameters = {10, 20, 30};
  const std::vector<float> theta = {5, 5, 5};
  const auto error = [&](const v1::Merge& merge) {
    return std::string(
        MergeInto(merge, theta, absl::MakeSpan(base), absl::MakeSpan(parameters)).message());
  };
  v1::Merge merge = MergeOf(2);
  merge.set_own_share_bits(absl::bit_cast<uint32_t>(1.5f));
  EXPECT_EQ(error(merge), "Merge of version 2: own_share is 1.5; it is 0 to 1");
  merge.set_own_share_bits(0);
  v1::ValueRange* const range = merge.add_ranges();
  range->set_first(2);
  range->set_count(2);
  EXPECT_EQ(error(merge), "Merge of version 2: 2 values from 2 on; the model has 3");
  range->set_count(~uint64_t{0});
  EXPECT_THAT(error(merge), HasSubstr("the model has 3"));
  EXPECT_THAT(parameters, ElementsAre(10, 20, 30));
}

// Broken: a word that a newer daemon knows would be taken for theta.
TEST(ReadStartTest, KnowsThreeAndRefusesOthers) {
  TrainingStart start;
  v1::TrainSteps train;
  ASSERT_TRUE(ReadStart(train, &start).ok());
  EXPECT_EQ(start, TrainingStart::kTheta);
  train.set_start("guess");
  ASSERT_TRUE(ReadStart(train, &start).ok());
  EXPECT_EQ(start, TrainingStart::kGuess);
  train.set_start("own");
  ASSERT_TRUE(ReadStart(train, &start).ok());
  EXPECT_EQ(start, TrainingStart::kOwn);
  train.set_party(2);
  EXPECT_THAT(std::string(ReadStart(train, &start).message()), HasSubstr("virtual parties"));
  train.set_start("base");
  EXPECT_THAT(std::string(ReadStart(train, &start).message()), HasSubstr("'base'"));
}

}  // namespace
}  // namespace atolld
