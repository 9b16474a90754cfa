#include "daemon/replica/transfer/fetch_schedule.h"

#include <gtest/gtest.h>

#include <set>

namespace atolld {
namespace {

const absl::Time kStart = absl::UnixEpoch();

TEST(FetchSchedule, AsksEachItemOnceWithinTheWindow) {
  // Broken: donors would send the same blocks, or a joiner would hold a whole snapshot in memory.
  FetchSchedule schedule(0, 100, 6, 4);
  schedule.AddStream(1);
  schedule.AddStream(2);
  std::set<uint64_t> asked;
  for (const int stream : {1, 2, 1, 2, 1, 2, 1, 2}) {
    const auto item = schedule.Ask(stream, kStart);
    if (!item) continue;
    EXPECT_TRUE(asked.insert(*item).second) << *item;
  }
  EXPECT_EQ(asked, (std::set<uint64_t>{0, 1, 2, 3})) << "two ahead until the speed is known";
  EXPECT_EQ(schedule.Owed(1), 0u);
  EXPECT_TRUE(schedule.Took(1, kStart + absl::Seconds(1)));
  while (const auto item = schedule.Ask(1, kStart + absl::Seconds(1))) asked.insert(*item);
  EXPECT_EQ(*asked.rbegin(), 5u) << "item 6 lies beyond the window";
  schedule.Consumed(1);
  EXPECT_EQ(schedule.missing(), 99u);
}

TEST(FetchSchedule, WhatALostDonorOwedGoesToOthers) {
  // Broken: a donor's death would leave a hole that nobody fills.
  FetchSchedule schedule(0, 2, 8, 4);
  schedule.AddStream(1);
  EXPECT_EQ(schedule.Ask(1, kStart), 0u);
  EXPECT_EQ(schedule.Ask(1, kStart), 1u);
  EXPECT_FALSE(schedule.AnyOpen());
  schedule.RemoveStream(1);
  schedule.AddStream(2);
  EXPECT_EQ(schedule.Ask(2, kStart), 0u);
  schedule.Have(1);
  EXPECT_EQ(schedule.Ask(2, kStart), std::nullopt);
  schedule.Lost(1);
  EXPECT_EQ(schedule.Ask(2, kStart), 1u);
}

TEST(FetchSchedule, AnIdleDonorIsAskedForWhatASlowOneOwes) {
  // Broken: one donor that is alive but slow would hold up a whole join; or a small snapshot would
  // be fetched twice.
  FetchSchedule schedule(0, 3, 8, 1);
  schedule.AddStream(1);
  schedule.AddStream(2);
  EXPECT_EQ(schedule.Ask(1, kStart), 0u);
  EXPECT_EQ(schedule.Ask(2, kStart), 1u);
  absl::Time now = kStart + absl::Milliseconds(100);
  EXPECT_TRUE(schedule.Took(2, now));
  EXPECT_EQ(schedule.Ask(2, now), 2u);
  now += absl::Milliseconds(100);
  EXPECT_TRUE(schedule.Took(2, now));
  EXPECT_EQ(schedule.Ask(2, now), std::nullopt) << "the first is not late yet";
  const absl::Time late = schedule.ReconsiderAt();
  EXPECT_EQ(late, kStart + absl::Milliseconds(400));
  EXPECT_EQ(schedule.Ask(2, late), 0u);
  EXPECT_TRUE(schedule.Took(2, late + absl::Milliseconds(100)));
  EXPECT_FALSE(schedule.Took(1, late + absl::Seconds(1))) << "it came a second time";
  EXPECT_EQ(schedule.missing(), 0u);
  EXPECT_EQ(schedule.ReconsiderAt(), absl::InfiniteFuture());
}

TEST(FetchSchedule, ASlowDonorHasFewerRequestsAhead) {
  // Broken: a slow donor would be given as much of the window as a fast one, and hold it up.
  FetchSchedule schedule(0, 1000, 100, 4);
  schedule.AddStream(1);
  schedule.AddStream(2);
  absl::Time now = kStart;
  const auto fill = [&](int stream) {
    int asked = 0;
    while (schedule.Ask(stream, now)) ++asked;
    return asked;
  };
  fill(1);
  fill(2);
  for (int i = 0; i < 10; ++i) {
    now += absl::Milliseconds(10);
    schedule.Took(1, now);
    fill(1);
  }
  now += absl::Milliseconds(900);
  schedule.Took(2, now);
  EXPECT_EQ(fill(2), 0) << "one is still on its way";
  schedule.Took(2, now + absl::Seconds(1));
  EXPECT_EQ(fill(2), 1);
}

}  // namespace
}  // namespace atolld
