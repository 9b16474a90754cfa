#include "worker/base/schedule.h"

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

// Broken: a run that holds its peak could not be gone on with to a later end, or would cool down
// otherwise than published (1 - sqrt).
TEST(ScheduleTest, WsdHoldsThePeakAndCoolsDownByTheRoot) {
  v1::InnerSpec inner = NanoGptCpu();
  inner.set_schedule("wsd");
  inner.set_cooldown_steps(400);
  EXPECT_DOUBLE_EQ(LearningRate(inner, 99), 1e-3 * 100 / 101);
  EXPECT_DOUBLE_EQ(LearningRate(inner, 100), 1e-3);
  EXPECT_DOUBLE_EQ(LearningRate(inner, 1600), 1e-3);
  EXPECT_NEAR(LearningRate(inner, 1700), 1e-4 + 0.5 * 9e-4, 1e-15);           // sqrt(1/4)
  EXPECT_NEAR(LearningRate(inner, 1825), 1e-4 + 0.25 * 9e-4, 1e-15);          // sqrt(9/16)
  EXPECT_NEAR(LearningRate(inner, 1999), 1e-4 + 0.0012507825 * 9e-4, 1e-12);  // sqrt(399/400)
  EXPECT_DOUBLE_EQ(LearningRate(inner, 2000), 1e-4);
  EXPECT_DOUBLE_EQ(LearningRate(inner, 3000), 1e-4);
  v1::InnerSpec longer = inner;
  longer.set_decay_steps(4000);
  for (uint64_t step = 0; step <= 1600; step += 50) {
    EXPECT_EQ(LearningRate(longer, step), LearningRate(inner, step)) << step;
  }
}

// Broken: "constant" would fall.
TEST(ScheduleTest, ConstantStaysAtThePeak) {
  v1::InnerSpec inner = NanoGptCpu();
  inner.set_schedule("constant");
  EXPECT_DOUBLE_EQ(LearningRate(inner, 99), 1e-3 * 100 / 101);
  EXPECT_DOUBLE_EQ(LearningRate(inner, 1000), 1e-3);
  EXPECT_DOUBLE_EQ(LearningRate(inner, 5000), 1e-3);
}

// Broken: a machine that is four times as fast as the others would train at rates of rounds that
// have not begun, and fall back at each commit.
TEST(ScheduleTest, AFasterPeerStaysInTheRoundsStretchOfTheSchedule) {
  EXPECT_EQ(StepOfRun(200, 7, 25, 25), 207u);
  EXPECT_EQ(StepOfRun(200, 0, 100, 25), 200u);
  EXPECT_EQ(StepOfRun(200, 50, 100, 25), 212u);
  EXPECT_EQ(StepOfRun(200, 99, 100, 25), 224u);
  EXPECT_EQ(StepOfRun(200, 4, 5, 25), 220u);
  EXPECT_EQ(StepOfRun(200, 3, 0, 25), 203u);
  EXPECT_EQ(StepOfRun(0, 999999, 1000000, 1000000), 999999u);
}

}  // namespace
}  // namespace atolld
