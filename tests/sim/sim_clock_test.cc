// The clocks of the simulated machines.
#include "gtest/gtest.h"
#include "tests/sim/sim_world.h"

namespace atolld {
namespace {

// Would break: code that trusts a wall clock would pass every test; and a clock set before the
// process starts would be forgotten.
TEST(SimClock, AWallClockIsOffDriftsAndStepsBack) {
  SimWorld world(1);
  world.SetWallClock("p", -absl::Minutes(10), 1000);
  Env env = world.AddProcess("p").env();
  Env right = world.AddProcess("q").env();
  EXPECT_EQ(right.executor.WallTime() - env.executor.WallTime(), absl::Minutes(10));
  const absl::Time before = env.executor.Now();
  world.RunFor(absl::Seconds(1000));
  EXPECT_EQ(right.executor.WallTime() - env.executor.WallTime(),
            absl::Minutes(10) - absl::Seconds(1));
  EXPECT_EQ(env.executor.Now() - before, absl::Seconds(1000)) << "the monotonic clock is another";
  const absl::Time wall = env.executor.WallTime();
  world.StepWallClock("p", -absl::Hours(1));
  EXPECT_EQ(env.executor.WallTime(), wall - absl::Hours(1));
  world.Kill("p");
  world.Restart("p");
  EXPECT_EQ(world.process("p").env().executor.WallTime(), wall - absl::Hours(1));
}

// Would break: a timer could fire before its own clock has reached the instant, and code that
// checks the clock would spin or wait once more.
TEST(SimClock, ATimerNeverFiresEarlyByItsOwnClock) {
  for (const int64_t drift : {-1000, -333, 0, 7, 1000}) {
    SimWorld world(2);
    Env env = world.AddProcess("p").env();
    world.RunFor(absl::Nanoseconds(123456789));
    world.SetMonotonicDrift("p", drift);
    for (const absl::Duration delay :
         {absl::Nanoseconds(1), absl::Nanoseconds(1.25), absl::Microseconds(333), absl::Seconds(1),
          absl::Hours(20) + absl::Nanoseconds(7)}) {
      const absl::Time due = env.executor.Now() + delay;
      bool fired = false;
      env.executor.RunAfter(delay, [&] { fired = true; });
      ASSERT_TRUE(world.RunUntil([&] { return fired; }, absl::Hours(30)));
      EXPECT_GE(env.executor.Now(), due) << drift << " " << delay;
      EXPECT_LE(env.executor.Now() - due, absl::Nanoseconds(5)) << drift << " " << delay;
    }
  }
}

// Would break: an event that must never come would come at once, or would end the time of the whole
// world.
TEST(SimClock, AnEndlessDelayNeverEnds) {
  SimWorld world(4);
  Env env = world.AddProcess("p").env();
  int ran = 0;
  world.SetMonotonicDrift("p", 500);
  env.executor.RunAfter(absl::InfiniteDuration(), [&] { ++ran; });
  world.At(absl::InfiniteDuration(), [&] { ++ran; });
  world.RunFor(absl::Hours(24));
  EXPECT_EQ(ran, 0);
  EXPECT_EQ(world.now(), absl::Hours(24));
}

// Would break: a drift would have no effect, or would make time jump.
TEST(SimClock, AMonotonicClockGainsOrLosesWithoutAJump) {
  SimWorld world(3);
  Env env = world.AddProcess("p").env();
  world.RunFor(absl::Seconds(10));
  const absl::Time start = env.executor.Now();
  world.SetMonotonicDrift("p", -1000);
  EXPECT_EQ(env.executor.Now(), start);
  world.RunFor(absl::Seconds(1000));
  EXPECT_EQ(env.executor.Now() - start, absl::Seconds(999));
  world.SetMonotonicDrift("p", 0);
  EXPECT_EQ(env.executor.Now() - start, absl::Seconds(999));
}

}  // namespace
}  // namespace atolld
