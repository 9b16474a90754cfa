#include "daemon/peer/life_count.h"

#include <gtest/gtest.h>

#include "absl/status/status.h"
#include "compression/base/bytes.h"
#include "membership/run/admission.h"
#include "tests/sim/sim_world.h"
#include "tests/unit/daemon/replica/state/test_run.h"

namespace atolld {
namespace {

class LifeCountTest : public ::testing::Test {
 protected:
  LifeCountTest() { EXPECT_TRUE(env_.files.MakeDirectories("/r").ok()); }

  uint64_t NextLife() {
    LifeCount lives(env_, "/r");
    EXPECT_EQ(lives.Begin(), absl::OkStatus());
    return lives.life();
  }

  SimWorld world_{1};
  const Env env_ = world_.AddProcess("p").env();
};

TEST_F(LifeCountTest, EachStartHasAGreaterLifeThanAllBefore) {
  // Broken: the coordinator could not tell the living process from one that is dead.
  const uint64_t first = NextLife();
  EXPECT_GT(first, 0u);
  EXPECT_EQ(NextLife(), first + 1);
  world_.StepWallClock("p", -absl::Hours(1000));
  EXPECT_EQ(NextLife(), first + 2) << "a clock that went back changes nothing";
  ASSERT_TRUE(env_.files.Remove("/r/life").ok());
  world_.StepWallClock("p", absl::Hours(2000));
  EXPECT_GT(NextLife(), first + 2) << "a new folder begins above the one that it replaces";
}

TEST_F(LifeCountTest, ALifeIsOnTheDiskBeforeItIsTold) {
  // Broken: two processes would have one life, after a crash.
  world_.SetCrash("p", SimDisk::Crash::kLoseUnsynced);
  const uint64_t first = NextLife();
  LifeCount lives(env_, "/r");
  ASSERT_EQ(lives.Begin(), absl::OkStatus());
  lives.RaiseAbove(first + 40);
  EXPECT_EQ(lives.life(), first + 1) << "not yet durable";
  world_.RunFor(absl::Seconds(1));
  EXPECT_EQ(lives.life(), first + 41);
  lives.RaiseAbove(first + 7);
  lives.RaiseAbove(kMostLives);
  world_.RunFor(absl::Seconds(1));
  EXPECT_EQ(lives.life(), first + 41);
  EXPECT_EQ(NextLife(), first + 42);
}

TEST_F(LifeCountTest, NoLifeIsToldThatIsNotOnTheDisk) {
  // Broken: what a process on a full disk says is taken for a former one's, or ends a later one.
  const uint64_t first = NextLife();
  world_.disk("p").SetCapacity(0);
  LifeCount lives(env_, "/r");
  EXPECT_TRUE(absl::IsResourceExhausted(lives.Begin()));
  EXPECT_EQ(lives.life(), 0u);
  world_.disk("p").SetCapacity(1 << 20);
  EXPECT_EQ(NextLife(), first + 1);
}

TEST_F(LifeCountTest, AFileThatHoldsNoCountIsMadeAnew) {
  // Broken: a rotten file would keep a peer from starting for good.
  ASSERT_TRUE(WriteFileDurably(env_.files, "/r/life", BytesOf("seven")).ok());
  EXPECT_GT(NextLife(), 0u);
  EXPECT_EQ(world_.LogCount("holds no count of starts"), 1u);
}

}  // namespace
}  // namespace atolld
