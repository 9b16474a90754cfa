#include "daemon/exchange/send_window.h"

#include <algorithm>
#include <map>

#include "gtest/gtest.h"

namespace atolld {
namespace {

constexpr size_t kChunk = 1000;
constexpr size_t kMany = 1000000;  // chunks that are still to be sent
const absl::Time kBegin = absl::UnixEpoch();

// Would break: contributions would fill all buffers on the way, and means would wait behind them.
TEST(SendWindow, StopsAtTheFloorWhileNothingComesBack) {
  SendWindow window({10 * kChunk, 4});
  uint32_t chunk = 0;
  for (; window.Allows(chunk, kMany); ++chunk) window.OnSent(chunk, kChunk, kBegin);
  EXPECT_EQ(chunk, 10u);
  window.OnMean(3, kBegin + absl::Seconds(1));
  EXPECT_TRUE(window.Allows(chunk, kMany));
  EXPECT_EQ(window.in_flight_bytes(), 9 * kChunk);
}

// Would break: a stream of large chunks would send one a round trip.
TEST(SendWindow, HoldsSeveralChunksHoweverLarge) {
  SendWindow window({kChunk, 4});
  uint32_t chunk = 0;
  for (; window.Allows(chunk, kMany); ++chunk) window.OnSent(chunk, 100 * kChunk, kBegin);
  EXPECT_EQ(chunk, 4u);
}

// Would break: peers would wait for each other for ever: one whose window is full of later chunks
// for a chunk of another, and that one for this one's.
TEST(SendWindow, LetsTheLowestChunkGoHoweverFull) {
  SendWindow window({2 * kChunk, 1});
  window.OnSent(7, kChunk, kBegin);
  window.OnSent(9, kChunk, kBegin);
  EXPECT_FALSE(window.Allows(10, kMany));
  EXPECT_FALSE(window.Allows(8, kMany));
  EXPECT_TRUE(window.Allows(6, kMany));
}

// Would break: a fat long line would be as slow as a short one: 2 MB/s at 200 ms hold 400 kB.
TEST(SendWindow, GrowsWithWhatTheWayHolds) {
  constexpr absl::Duration kLatency = absl::Milliseconds(200);
  constexpr double kRate = 2e6;
  SendWindow window({16 * kChunk, 4});
  // The way: a chunk a turn, at the line's rate, and the latency after it.
  absl::Time line_free = kBegin;
  absl::Time now = kBegin;
  std::map<uint32_t, absl::Time> due;
  uint32_t next = 0;
  while (next < 5000) {
    for (; window.Allows(next, kMany); ++next) {
      line_free = std::max(line_free, now) + absl::Seconds(kChunk / kRate);
      due[next] = line_free + kLatency;
      window.OnSent(next, kChunk, now);
    }
    now = due.begin()->second;
    window.OnMean(due.begin()->first, now);
    due.erase(due.begin());
  }
  const double held = kRate * absl::ToDoubleSeconds(kLatency);
  EXPECT_GT(static_cast<double>(window.limit(kMany)), 7 * held);
  EXPECT_LT(static_cast<double>(window.limit(kMany)), 10 * held);
  // Would break: the streams would not end together, and lines would idle at the end.
  const size_t left = 20 * static_cast<size_t>(held) / kChunk;
  EXPECT_GE(window.limit(2 * left), window.limit(left));
  EXPECT_LT(static_cast<double>(window.limit(left)), 3 * held);
  // Would break: the last chunks of a fat long line would go one a round trip.
  EXPECT_GT(static_cast<double>(window.limit(1)), 1.7 * held);
}

// Would break: what a broken call had in flight would count for ever.
TEST(SendWindow, BeginsAnewWithEachCall) {
  SendWindow window({2 * kChunk, 1});
  window.OnSent(0, kChunk, kBegin);
  window.OnSent(1, kChunk, kBegin);
  EXPECT_FALSE(window.Allows(2, kMany));
  window.Forget(0);
  EXPECT_TRUE(window.Allows(2, kMany));
  window.Restart();
  EXPECT_EQ(window.in_flight_bytes(), 0u);
  window.OnMean(1, kBegin + absl::Seconds(1));  // of the call before: nothing to count
  EXPECT_EQ(window.in_flight_bytes(), 0u);
}

}  // namespace
}  // namespace atolld
