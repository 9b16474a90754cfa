#include "worker/schedule.h"

#include <gtest/gtest.h>

namespace atolld {
namespace {

v1::InnerSpec NanoGptCpu() {
  v1::InnerSpec inner;
  inner.set_learning_rate(1e-3);
  inner.set_min_learning_rate(1e-4);
  inner.set_warmup_steps(100);
  inner.set_decay_steps(2000);
  return inner;
}

// Broken: training would not follow nanoGPT's schedule, and its published losses would not be
// reached.
TEST(ScheduleTest, FollowsNanoGptsTable) {
  const v1::InnerSpec inner = NanoGptCpu();
  EXPECT_DOUBLE_EQ(LearningRate(inner, 0), 1e-3 / 101);
  EXPECT_DOUBLE_EQ(LearningRate(inner, 49), 1e-3 * 50 / 101);
  EXPECT_DOUBLE_EQ(LearningRate(inner, 99), 1e-3 * 100 / 101);
  EXPECT_DOUBLE_EQ(LearningRate(inner, 100), 1e-3);
  EXPECT_NEAR(LearningRate(inner, 575), 8.681980515339464e-4, 1e-15);
  EXPECT_NEAR(LearningRate(inner, 1050), 5.5e-4, 1e-15);
  EXPECT_NEAR(LearningRate(inner, 1525), 2.318019484660536e-4, 1e-15);
  EXPECT_DOUBLE_EQ(LearningRate(inner, 2000), 1e-4);
  EXPECT_DOUBLE_EQ(LearningRate(inner, 1000000), 1e-4);
}

// Broken: a run without a cosine would divide by zero or stop learning.
TEST(ScheduleTest, WithoutDecayStaysAtThePeak) {
  v1::InnerSpec inner = NanoGptCpu();
  inner.set_decay_steps(0);
  EXPECT_DOUBLE_EQ(LearningRate(inner, 99), 1e-3 * 100 / 101);
  EXPECT_DOUBLE_EQ(LearningRate(inner, 1u << 30), 1e-3);
  inner.set_warmup_steps(0);
  EXPECT_DOUBLE_EQ(LearningRate(inner, 0), 1e-3);
}

// Broken: a warm-up as long as the decay would give a rate that is not a number.
TEST(ScheduleTest, WarmUpAsLongAsTheDecayEndsAtTheMinimum) {
  v1::InnerSpec inner = NanoGptCpu();
  inner.set_decay_steps(100);
  EXPECT_DOUBLE_EQ(LearningRate(inner, 99), 1e-3 * 100 / 101);
  EXPECT_DOUBLE_EQ(LearningRate(inner, 100), 1e-4);
}

}  // namespace
}  // namespace atolld
