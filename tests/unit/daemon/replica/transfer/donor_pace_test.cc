#include "daemon/replica/transfer/donor_pace.h"

#include <gtest/gtest.h>

#include <map>

#include "membership/history/digest.h"

namespace atolld {
namespace {

// Gives every grant at once to calls that always want another block; returns blocks by call.
std::map<uint64_t, int> Serve(DonorPace* pace, const std::map<uint64_t, std::string>& calls,
                              absl::Time* now, absl::Duration time, int* timers) {
  std::map<uint64_t, int> blocks;
  for (const auto& [call, joiner] : calls) pace->Wait(joiner, call);
  const absl::Time end = *now + time;
  while (*now < end) {
    while (const auto call = pace->Grant(*now)) {
      pace->Settle(kBlockBytes);
      ++blocks[*call];
      pace->Wait(calls.at(*call), *call);
    }
    *now += pace->Delay(*now);
    ++*timers;
  }
  for (const auto& [call, joiner] : calls) pace->Forget(call);
  return blocks;
}

TEST(DonorPace, AllJoinersTogetherGetTheRateAndNoMore) {
  // Broken: joiners would slow the donor's own exchange, or a donor would give less than it may.
  DonorPace pace(8 * kBlockBytes);
  absl::Time now = absl::UnixEpoch();
  int timers = 0;
  std::map<uint64_t, int> blocks =
      Serve(&pace, {{1, "p1"}, {2, "p2"}}, &now, absl::Seconds(10), &timers);
  EXPECT_NEAR(blocks[1] + blocks[2], 80, 2);
  EXPECT_LE(timers, 90) << "more than a timer a block";
  pace.SetRate(now, kBlockBytes);
  blocks = Serve(&pace, {{1, "p1"}, {2, "p2"}}, &now, absl::Seconds(10), &timers);
  EXPECT_NEAR(blocks[1] + blocks[2], 10, 2);
}

TEST(DonorPace, AJoinerWithManyCallsGetsNoMoreThanOneWithOne) {
  // Broken: a greedy joiner would starve the others.
  DonorPace pace(8 * kBlockBytes);
  absl::Time now = absl::UnixEpoch();
  int timers = 0;
  std::map<uint64_t, int> blocks =
      Serve(&pace, {{1, "greedy"}, {2, "greedy"}, {3, "greedy"}, {4, "modest"}}, &now,
            absl::Seconds(10), &timers);
  EXPECT_NEAR(blocks[4], 40, 2);
  EXPECT_NEAR(blocks[1] + blocks[2] + blocks[3], 40, 2);
}

TEST(DonorPace, WhatWasNotSentIsNotCharged) {
  // Broken: small answers (headers, refusals) would use up the rate of whole blocks.
  DonorPace pace(kBlockBytes);
  const absl::Time now = absl::UnixEpoch();
  for (int i = 0; i < 100; ++i) {
    pace.Wait("p1", 7);
    ASSERT_EQ(pace.Grant(now), 7u) << i;
    pace.Settle(1000);
  }
  EXPECT_EQ(pace.Delay(now), absl::InfiniteDuration());
}

TEST(DonorPace, WhatIsPaidBeforehandIsNeverOverdrawn) {
  DonorPace pace(kBlockBytes);
  absl::Time now = absl::UnixEpoch();
  for (uint64_t call = 1; call <= 4; ++call) pace.Wait("a", call);
  pace.SetRate(now, kBlockBytes / 8, /*beforehand=*/true);
  EXPECT_FALSE(pace.Grant(now)) << "what was saved is not spent";
  EXPECT_FALSE(pace.Grant(now + absl::Seconds(7.9)));
  EXPECT_NEAR(absl::ToDoubleSeconds(pace.Delay(now + absl::Seconds(7.9))), 0.1, 1e-3);
  now += absl::Seconds(8.01);
  EXPECT_TRUE(pace.Grant(now));
  EXPECT_FALSE(pace.Grant(now));
  pace.SetRate(now, kBlockBytes);
  EXPECT_TRUE(pace.Grant(now + absl::Seconds(0.01))) << "and may be overdrawn afterwards";
  EXPECT_FALSE(pace.Grant(now + absl::Seconds(0.02)));
}

TEST(DonorPace, WithoutALimitNobodyWaits) {
  // Broken: rate 0, which means no limit, would stop all giving.
  DonorPace pace(0);
  for (int i = 0; i < 100; ++i) {
    pace.Wait("p1", 1);
    EXPECT_EQ(pace.Grant(absl::UnixEpoch()), 1u);
    pace.Settle(kBlockBytes);
  }
}

}  // namespace
}  // namespace atolld
