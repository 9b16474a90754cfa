#include "daemon/exchange/send_window.h"

#include <algorithm>
#include <map>

#include "gtest/gtest.h"

namespace atolld {
namespace {

constexpr size_t kChunk = 1000;
const absl::Time kBegin = absl::UnixEpoch();

// Would break: contributions would fill all buffers on the way, and means would wait behind them.
TEST(SendWindow, StopsAtTheFloorWhileNothingComesBack) {
  SendWindow window({10 * kChunk, 4});
  uint32_t chunk = 0;
  for (; window.Allows(chunk); ++chunk) window.OnSent(chunk, kChunk, kBegin);
  EXPECT_EQ(chunk, 10u);
  window.Forget(3);
  EXPECT_TRUE(window.Allows(chunk));
  EXPECT_EQ(window.in_flight_bytes(), 9 * kChunk);
}

// Would break: streams would run further ahead of each other than keeps a line busy, and the last
// of them be alone on it at the end.
TEST(SendWindow, HasHalfTheFloorOnceTheWayIsMeasured) {
  SendWindow window({10 * kChunk, 4});
  for (uint32_t chunk = 0; chunk < 10; ++chunk) window.OnSent(chunk, kChunk, kBegin);
  EXPECT_EQ(window.limit(), 10 * kChunk);
  window.OnMean(0, kBegin + absl::Seconds(1));
  EXPECT_EQ(window.limit(), 5 * kChunk);
  EXPECT_FALSE(window.Allows(10));
}

// Would break: a stream of large chunks would send one a round trip.
TEST(SendWindow, HoldsSeveralChunksHoweverLarge) {
  SendWindow window({kChunk, 4});
  uint32_t chunk = 0;
  for (; window.Allows(chunk); ++chunk) window.OnSent(chunk, 100 * kChunk, kBegin);
  EXPECT_EQ(chunk, 4u);
}

// Would break: peers would wait for each other for ever: one whose window is full of later chunks
// for a chunk of another, and that one for this one's.
TEST(SendWindow, LetsTheLowestChunkGoHoweverFull) {
  SendWindow window({2 * kChunk, 1});
  window.OnSent(7, kChunk, kBegin);
  window.OnSent(9, kChunk, kBegin);
  EXPECT_FALSE(window.Allows(10));
  EXPECT_FALSE(window.Allows(8));
  EXPECT_TRUE(window.Allows(6));
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
  while (next < 50000) {
    for (; window.Allows(next); ++next) {
      line_free = std::max(line_free, now) + absl::Seconds(kChunk / kRate);
      due[next] = line_free + kLatency;
      window.OnSent(next, kChunk, now);
    }
    now = due.begin()->second;
    window.OnMean(due.begin()->first, now);
    due.erase(due.begin());
  }
  const double held = kRate * absl::ToDoubleSeconds(kLatency);
  // What the last chunk in flight adds to the latency counts as held, too.
  EXPECT_GT(static_cast<double>(window.limit()), held);
  EXPECT_LT(static_cast<double>(window.limit()), 1.4 * held);
}

// Would break: the other streams would stand still with one whose reducer has died until the plan
// moves its shard, or not wait for one that is merely far away.
TEST(SendWindow, StallsWhenNoMeanComesForFourLatencies) {
  SendWindow window({16 * kChunk, 4});
  EXPECT_FALSE(window.Stalls(kBegin + absl::Minutes(1)));  // nothing is awaited
  window.OnSent(0, kChunk, kBegin);
  EXPECT_FALSE(window.Stalls(kBegin + SendWindow::kLeastPatience));
  EXPECT_TRUE(window.Stalls(kBegin + 1.1 * SendWindow::kLeastPatience));
  const absl::Duration latency = absl::Seconds(2);
  window.OnMean(0, kBegin + latency);
  const absl::Time again = kBegin + absl::Minutes(1);
  window.OnSent(1, kChunk, again);
  EXPECT_FALSE(window.Stalls(again + 4 * latency));
  EXPECT_TRUE(window.Stalls(again + 4.1 * latency));
}

// Would break: a stream would let the others run further ahead the more it has in flight.
TEST(SendWindow, TellsHowManyChunksMoreMayGo) {
  SendWindow window({16 * kChunk, 4});
  EXPECT_EQ(window.FreeChunks(), 4);  // of a size that is not known yet
  for (uint32_t chunk = 0; chunk < 10; ++chunk) window.OnSent(chunk, kChunk, kBegin);
  EXPECT_EQ(window.FreeChunks(), 6);
  window.OnMean(0, kBegin + absl::Seconds(1));  // half the floor from now on
  EXPECT_EQ(window.FreeChunks(), -1);
}

// Would break: what a broken call had in flight would count for ever.
TEST(SendWindow, BeginsAnewWithEachCall) {
  SendWindow window({2 * kChunk, 1});
  window.OnSent(0, kChunk, kBegin);
  window.OnSent(1, kChunk, kBegin);
  EXPECT_FALSE(window.Allows(2));
  window.Forget(0);
  EXPECT_TRUE(window.Allows(2));
  window.Restart();
  EXPECT_EQ(window.in_flight_bytes(), 0u);
  window.OnMean(1, kBegin + absl::Seconds(1));  // of the call before: nothing to count
  EXPECT_EQ(window.in_flight_bytes(), 0u);
}

}  // namespace
}  // namespace atolld
