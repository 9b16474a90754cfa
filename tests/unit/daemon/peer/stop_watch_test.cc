#include "daemon/peer/stop_watch.h"

#include <gtest/gtest.h>

namespace atolld {
namespace {

TEST(StopWatch, NoticesThatThisProcessWasStopped) {
  // Broken: a laptop that wakes would report healthy reducers as unreachable, and have their shards
  // redone.
  StopWatch watch(absl::Seconds(5));
  absl::Time now = absl::UnixEpoch() + absl::Hours(1);
  EXPECT_FALSE(watch.JustStopped(now)) << "it has never ticked";
  for (int i = 0; i < 10; ++i) {
    watch.Tick(now);
    now += absl::Seconds(1);
    EXPECT_FALSE(watch.JustStopped(now));
  }
  now += absl::Seconds(20);  // stopped
  EXPECT_TRUE(watch.JustStopped(now)) << "a stale timer runs before the tick";
  watch.Tick(now);
  EXPECT_TRUE(watch.JustStopped(now + absl::Seconds(1)));
  for (int i = 0; i < 5; ++i) watch.Tick(now += absl::Seconds(1));
  EXPECT_FALSE(watch.JustStopped(now)) << "it would never blame anybody again";
}

}  // namespace
}  // namespace atolld
