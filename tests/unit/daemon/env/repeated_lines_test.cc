// Would break: what happens eight times a second would fill the log and hide all else.
#include "daemon/env/repeated_lines.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace atolld {
namespace {

class HeldClock final : public Executor {
 public:
  absl::Time Now() const override { return now; }
  absl::Time WallTime() const override { return now; }
  void Post(Task) override {}
  TimerId RunAfter(absl::Duration, Task) override { return 0; }
  void Cancel(TimerId) override {}
  void Offload(Task, Task) override {}
  uint64_t Random() override { return 0; }

  absl::Time now = absl::UnixEpoch();
};

class KeptLines final : public Log {
 public:
  void Write(Level level, absl::string_view line) override {
    if (level != Level::kDebug) lines.emplace_back(line);
  }
  std::vector<std::string> lines;
};

TEST(RepeatedLinesTest, TheSameIsSaidOnceAndThenCounted) {
  HeldClock clock;
  KeptLines log;
  RepeatedLines lines(clock, log);
  for (int i = 0; i < 30; ++i) {
    lines.Write(Log::Level::kWarning, "refused", "entry 12 is not here");
    clock.now += absl::Seconds(1);
  }
  lines.Write(Log::Level::kWarning, "other", "something else");
  EXPECT_EQ((std::vector<std::string>{"entry 12 is not here", "something else"}), log.lines);
  clock.now += absl::Minutes(10);
  lines.Write(Log::Level::kWarning, "refused", "entry 50 is not here");
  EXPECT_EQ("entry 50 is not here (29 more like it since it was last said)", log.lines.back());
  EXPECT_EQ("entry  of ", WithoutNumbers("entry 12 of 40"));
}

}  // namespace
}  // namespace atolld
