// Would fail if a plan with a mistake in it were accepted.
#include "tests/wan/wan_plan.h"

#include "gtest/gtest.h"

namespace atolld {
namespace {

TEST(WanPlanTest, IsReadLineByLine) {
  WanPlan plan;
  for (const char* line : {"seed 7", "node a /run/a wan0 10.0.0.1", "node b /run/b wan0 10.0.0.2",
                           "line a.up 1000000 20ms 100ms 0.01", "line b.down 2e6 500us 1s 0",
                           "path a b a.up b.down"}) {
    EXPECT_TRUE(plan.Read(line).ok()) << line;
    EXPECT_FALSE(plan.complete());
  }
  EXPECT_TRUE(plan.Read("go").ok());
  EXPECT_TRUE(plan.complete());
  ASSERT_EQ(2u, plan.nodes().size());
  EXPECT_EQ("/run/b", plan.nodes()[1].namespace_path);
  EXPECT_EQ("wan0", plan.nodes()[1].device);
  ASSERT_EQ(2u, plan.fabric().lines().size());
  const LineSettings& line = plan.fabric().lines()[1].settings();
  EXPECT_EQ("b.down", line.name);
  EXPECT_EQ(2e6, line.bits_per_second);
  EXPECT_EQ(absl::Microseconds(500), line.delay);
  EXPECT_EQ(absl::Seconds(1), line.queue);
}

TEST(WanPlanTest, RefusesWhatMeansNothing) {
  WanPlan plan;
  ASSERT_TRUE(plan.Read("node a /run/a wan0 10.0.0.1").ok());
  ASSERT_TRUE(plan.Read("line up 1000 1ms 1ms 0").ok());
  for (const char* line :
       {"node a /run/a wan0 10.0.0.2", "node b /run/b wan0 10.0.0", "node b", "line up 1 1ms 1ms 0",
        "line x 0 1ms 1ms 0", "line x -5 1ms 1ms 0", "line x 1 1 1ms 0", "line x 1 -1ms 1ms 0",
        "line x 1 1ms -1ms 0", "line x 1 1ms 1ms 1", "line x 1 1ms 1ms nan", "line x nan 1ms 1ms 0",
        "path a b up", "path a a down", "path a", "seed x", "going", "go now"}) {
    EXPECT_FALSE(plan.Read(line).ok()) << line;
  }
}

}  // namespace
}  // namespace atolld
