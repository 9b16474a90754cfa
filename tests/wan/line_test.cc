// Would fail if a line of the lab were faster, slower, longer, shorter or lossier than its
// settings.
#include "tests/wan/line.h"

#include "gtest/gtest.h"

namespace atolld {
namespace {

constexpr int64_t kOneMillisecond = 1'000'000;

LineSettings TenMegabit() {
  LineSettings settings;
  settings.name = "a line";
  settings.bits_per_second = 10e6;  // 1,250 bytes take a millisecond
  settings.delay = absl::Milliseconds(20);
  settings.queue = absl::Milliseconds(5);
  return settings;
}

TEST(LineTest, APacketTakesItsSizeAndTheDelay) {
  Line line(TenMegabit(), 1);
  EXPECT_EQ(1000 + 21 * kOneMillisecond, line.Send(1000, 1250, 1));
}

TEST(LineTest, PacketsWaitForTheOnesBefore) {
  Line line(TenMegabit(), 1);
  EXPECT_EQ(21 * kOneMillisecond, line.Send(0, 1250, 1));
  EXPECT_EQ(22 * kOneMillisecond, line.Send(0, 1250, 1));
  // The line was idle in between: no time is saved up.
  EXPECT_EQ(71 * kOneMillisecond, line.Send(50 * kOneMillisecond, 1250, 1));
  EXPECT_EQ(absl::Milliseconds(1), line.counts().longest_wait);
}

TEST(LineTest, WhatWouldWaitLongerThanTheQueueLastsIsDropped) {
  Line line(TenMegabit(), 1);
  int passed = 0;
  for (int i = 0; i < 20; ++i) passed += line.Send(0, 1250, 1).has_value() ? 1 : 0;
  EXPECT_EQ(6, passed);  // one is being sent, those behind wait 1 to 5 ms
  EXPECT_EQ(14u, line.counts().dropped);
  EXPECT_EQ(6u, line.counts().packets);
  EXPECT_TRUE(line.Send(kOneMillisecond, 1250, 1).has_value());
}

TEST(LineTest, CountsSegmentsAndBytes) {
  Line line(TenMegabit(), 1);
  line.Send(0, 3000, 2);
  line.Send(0, 1000, 1);
  EXPECT_EQ(3u, line.counts().packets);
  EXPECT_EQ(4000u, line.counts().bytes);
  EXPECT_EQ(0u, line.counts().lost);
}

TEST(LineTest, LosesItsShareTheSameOnesForASeed) {
  LineSettings settings = TenMegabit();
  settings.loss = 0.1;
  constexpr int kPackets = 20000;
  std::vector<bool> first;
  for (const uint64_t seed : {7, 7, 8}) {
    Line line(settings, seed);
    std::vector<bool> arrived;
    for (int i = 0; i < kPackets; ++i) {
      arrived.push_back(line.Send(i * kOneMillisecond, 100, 1).has_value());
    }
    // Five standard deviations of a binomial are 212.
    EXPECT_NEAR(kPackets / 10, static_cast<double>(line.counts().lost), 212);
    if (first.empty()) {
      first = arrived;
    } else {
      EXPECT_EQ(seed == 7, arrived == first);
    }
  }
}

TEST(LineTest, ALostPacketHasTakenItsTime) {
  LineSettings settings = TenMegabit();
  settings.loss = 0.999999;
  Line line(settings, 1);
  EXPECT_FALSE(line.Send(0, 1250, 1).has_value());
  EXPECT_FALSE(line.Send(0, 1250, 1).has_value());
  EXPECT_EQ(absl::Milliseconds(1), line.counts().longest_wait);
}

}  // namespace
}  // namespace atolld
