// If these fail, a disk that holds up every round, or a clock that was set back, is nowhere said.
#include "daemon/env/machine_watch.h"

#include <gtest/gtest.h>

#include <string>

#include "daemon/env/posix_files.h"
#include "tests/unit/daemon/env/temporary_directory.h"

namespace atolld {
namespace {

const absl::Time kBegin = absl::UnixEpoch() + absl::Hours(1);

TEST(SyncTimes, TellTheLongestThatWasSlowForWhatItWrote) {
  SyncTimes times;
  EXPECT_FALSE(times.Longest(kBegin));
  times.Add(kBegin, "/quick", absl::Milliseconds(30), 100);
  times.Add(kBegin, "/large", absl::Seconds(60), uint64_t{4} << 30);  // 70 MB/s
  EXPECT_FALSE(times.Longest(kBegin));
  times.Add(kBegin, "/log", absl::Seconds(4.2), 12000);
  times.Add(kBegin + absl::Minutes(1), "/log", absl::Seconds(2), 12000);
  const auto longest = times.Longest(kBegin + absl::Minutes(1));
  ASSERT_TRUE(longest);
  EXPECT_EQ(Describe(*longest), "an fsync of /log took 4.2 s for 12 kB");
}

TEST(SyncTimes, ForgetWhatIsOver) {
  SyncTimes times;
  times.Add(kBegin, "/log", absl::Seconds(9), 1);
  times.Add(kBegin + absl::Minutes(6), "/log", absl::Seconds(3), 1);
  EXPECT_EQ(times.Longest(kBegin + absl::Minutes(7))->took, absl::Seconds(9));
  EXPECT_EQ(times.Longest(kBegin + absl::Minutes(11))->took, absl::Seconds(3));
  EXPECT_FALSE(times.Longest(kBegin + absl::Minutes(17)));
}

TEST(ClockSteps, FindsWhereTheWallClockGoesBack) {
  ClockSteps steps;
  const absl::Time wall = absl::UnixEpoch() + absl::Hours(400000);
  EXPECT_EQ(steps.Look(kBegin, wall), absl::ZeroDuration());
  const auto later = [&](int seconds) { return kBegin + absl::Seconds(seconds); };
  EXPECT_EQ(steps.Look(later(1), wall + absl::Seconds(1)), absl::ZeroDuration());
  // Half a second: a time service. An hour forward: the machine slept.
  EXPECT_EQ(steps.Look(later(2), wall + absl::Seconds(1.5)), absl::ZeroDuration());
  EXPECT_EQ(steps.Look(later(3), wall + absl::Hours(1)), absl::ZeroDuration());
  EXPECT_EQ(steps.Look(later(4), wall + absl::Seconds(1)), absl::Hours(1));
  EXPECT_EQ(steps.Look(later(5), wall + absl::Seconds(2)), absl::ZeroDuration());  // told once
}

TEST(SyncTimes, AreMeasuredOfFiles) {
  const TemporaryDirectory directory;
  PosixFiles files;
  ASSERT_TRUE(WriteFileDurably(files, directory.File("a"), BytesOf("text")).ok());
  EXPECT_FALSE(files.sync_times().Longest(absl::InfinitePast()));
}

}  // namespace
}  // namespace atolld
