#include "membership/run/deadline.h"

#include "gtest/gtest.h"

namespace atolld {
namespace {

RecentTimes Times(std::initializer_list<double> seconds, size_t capacity = 16) {
  RecentTimes times(capacity);
  for (const double second : seconds) times.Add(absl::Seconds(second));
  return times;
}

// Would break: rounds that wait for stragglers for ever, or that drop peers of ordinary speed.
TEST(TrainDeadline, FollowsMedianAndSpread) {
  EXPECT_FALSE(TrainDeadline(Times({})).has_value());
  const struct {
    std::initializer_list<double> seconds;
    double deadline;
  } cases[] = {
      {{10}, 13.5},              // 1.25 x 10 + 1
      {{10, 10, 10, 90}, 13.5},  // one outlier moves nothing
      {{8, 10, 12}, 17},         // 10 + 3 x 2 + 1
      {{8, 12}, 17},
      {{0, 0}, 1},
  };
  for (const auto& one : cases) {
    EXPECT_EQ(*TrainDeadline(Times(one.seconds)), absl::Seconds(one.deadline));
  }
}

// Would break: a run whose peers become slower keeps the deadline of its first rounds.
TEST(RecentTimes, ForgetTheOldest) {
  EXPECT_EQ(Times({1, 1, 1, 9, 9}, 2).Median(), absl::Seconds(9));
}

// Would break: exchanges given up too early on slow links.
TEST(ExchangeDeadline, IsTwiceThePredictionAndTheFailureTimeout) {
  EXPECT_EQ(ExchangeDeadline(Times({3, 5, 4}), 1, 0, absl::Seconds(10)), absl::Seconds(18));
  EXPECT_EQ(ExchangeDeadline(Times({}), 1000000, 0, absl::Seconds(10)), absl::Seconds(18));
}

// Would break: a run on slow lines that tries its first exchange for ever, always for too short.
TEST(ExchangeDeadline, GrowsWithEachExchangeThatWasGivenUp) {
  EXPECT_EQ(ExchangeDeadline(Times({}), 1000000, 3, absl::Seconds(10)), absl::Seconds(74));
  EXPECT_EQ(ExchangeDeadline(Times({4}), 1, 1, absl::Seconds(10)), absl::Seconds(26));
  EXPECT_EQ(ExchangeDeadline(Times({4}), 1, 1000, absl::Seconds(10)),
            ExchangeDeadline(Times({4}), 1, 5, absl::Seconds(10)));
}

}  // namespace
}  // namespace atolld
