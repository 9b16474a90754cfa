// Would break: a volunteer's cap is kept on average and exceeded for seconds, or a debt is
// forgotten.
#include <deque>
#include <random>
#include <string>
#include <utility>

#include "daemon/transport/line_relay.h"
#include "gtest/gtest.h"

namespace atolld {
namespace {

constexpr uint64_t kRate = 1250000;  // 10 Mbit/s
constexpr absl::Duration kWindow = absl::Seconds(5);
constexpr absl::Time kBegin = absl::UnixEpoch();

// What has passed, and the most of it in any window.
class Passed {
 public:
  void Add(absl::Time now, uint64_t bytes) {
    events_.emplace_back(now, bytes);
    held_ += bytes;
    total_ += bytes;
    while (now - events_.front().first > kWindow) {
      held_ -= events_.front().second;
      events_.pop_front();
    }
    most_ = std::max(most_, held_);
  }
  double most_rate() const { return static_cast<double>(most_) / absl::ToDoubleSeconds(kWindow); }
  uint64_t total() const { return total_; }

 private:
  std::deque<std::pair<absl::Time, uint64_t>> events_;
  uint64_t held_ = 0, most_ = 0, total_ = 0;
};

TEST(CapBucketTest, NoWindowOfFiveSecondsHasMoreThanTheCapWhateverTheDemand) {
  std::mt19937_64 random(7);
  CapBucket bucket;
  bucket.SetRate(kBegin, kRate);
  Passed passed;
  absl::Time now = kBegin;
  uint64_t unasked = 0;
  while (now < kBegin + absl::Seconds(120)) {
    now += absl::Microseconds(200 + static_cast<int64_t>(random() % 8000));
    if (random() % 400 == 0) now += absl::Seconds(static_cast<int64_t>(random() % 4));  // idle
    if (random() % 1000 == 0) {  // a window that the kernel had open
      const uint64_t burst = random() % 60000;
      bucket.Charge(now, burst);
      passed.Add(now, burst);
      unasked += burst;
    }
    const size_t allowed = std::min<size_t>(bucket.Allowed(now), 65536);
    bucket.Charge(now, allowed);
    passed.Add(now, allowed);
  }
  EXPECT_GT(unasked, 0u);
  EXPECT_LE(passed.most_rate(), 1.05 * kRate);
  EXPECT_GE(passed.most_rate(), 0.95 * kRate) << "and a busy window has all of it";
}

TEST(CapBucketTest, WhatCameUnaskedIsPaidBeforeAnythingElsePasses) {
  CapBucket bucket;
  bucket.SetRate(kBegin, kRate);
  bucket.Charge(kBegin, kRate / 2);
  EXPECT_EQ(bucket.Allowed(kBegin), 0u);
  EXPECT_EQ(bucket.Wait(kBegin, 1000), absl::Seconds((kRate / 2 + 1000.0) / kRate));
  EXPECT_EQ(bucket.Allowed(kBegin + absl::Milliseconds(499)), 0u);
  EXPECT_NEAR(static_cast<double>(bucket.Allowed(kBegin + absl::Milliseconds(510))), kRate * 0.01,
              2);
}

TEST(CapBucketTest, WhatGoesFirstMaySpendAheadAndNoMore) {
  CapBucket bucket;
  bucket.SetRate(kBegin, kRate);
  bucket.Charge(kBegin, kRate / 10);
  EXPECT_EQ(bucket.Allowed(kBegin), 0u);
  EXPECT_NEAR(static_cast<double>(bucket.Allowed(kBegin, absl::Milliseconds(200))), kRate / 10, 2);
  bucket.Charge(kBegin, kRate / 10);
  EXPECT_LE(bucket.Allowed(kBegin, absl::Milliseconds(200)), 2u);
}

TEST(CapBucketTest, ZeroIsNoCapAndForgetsWhatWasOwed) {
  CapBucket bucket;
  EXPECT_EQ(bucket.Allowed(kBegin), CapBucket::kUnlimited);
  bucket.Charge(kBegin, uint64_t{1} << 40);
  EXPECT_EQ(bucket.Wait(kBegin, 1 << 20), absl::ZeroDuration());
  bucket.SetRate(kBegin, kRate);
  bucket.Charge(kBegin, 100 * kRate);
  bucket.SetRate(kBegin + absl::Seconds(1), 0);
  EXPECT_EQ(bucket.Allowed(kBegin + absl::Seconds(1)), CapBucket::kUnlimited);
  bucket.SetRate(kBegin + absl::Seconds(2), kRate);
  EXPECT_EQ(bucket.Wait(kBegin + absl::Seconds(2), 0), absl::ZeroDuration());
}

TEST(CapBucketTest, ANewRateHoldsAtOnce) {
  CapBucket bucket;
  bucket.SetRate(kBegin, 100 * kRate);
  absl::Time now = kBegin + absl::Seconds(1);
  bucket.SetRate(now, kRate);
  Passed passed;
  for (; now < kBegin + absl::Seconds(21); now += absl::Milliseconds(3)) {
    if (now > kBegin + absl::Seconds(11) && bucket.rate() == kRate) bucket.SetRate(now, kRate / 2);
    const size_t allowed = bucket.Allowed(now);
    bucket.Charge(now, allowed);
    passed.Add(now, allowed);
  }
  EXPECT_LE(passed.most_rate(), 1.05 * kRate);
  EXPECT_NEAR(static_cast<double>(passed.total()), 10.0 * kRate + 10.0 * kRate / 2, 0.1 * kRate);
}

}  // namespace
}  // namespace atolld
