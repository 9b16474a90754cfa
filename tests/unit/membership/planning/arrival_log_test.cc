#include "membership/planning/arrival_log.h"

#include <numeric>
#include <string>

#include "gtest/gtest.h"

namespace atolld {
namespace {

const absl::Time kBegan = absl::UnixEpoch() + absl::Hours(3);

uint64_t Total(const v1::ArrivalsFrom& from) {
  return std::accumulate(from.bytes().begin(), from.bytes().end(), uint64_t{0});
}

// Would break: bytes counted at another time than they came, or twice, or not at all, whatever an
// exchange takes.
TEST(ArrivalLog, KeepsEveryByteInItsTime) {
  ArrivalLog log;
  log.Begin(kBegan);
  // A byte each millisecond from a, and ten at once from b at the end.
  for (int ms = 0; ms < 3000; ++ms) log.Note("a", kBegan + absl::Milliseconds(ms), 1);
  log.Note("b", kBegan + absl::Milliseconds(2999), 10);
  const v1::Arrivals told = *log.Report(kBegan + absl::Milliseconds(3001));
  EXPECT_EQ(told.sent_microseconds(), 3001000u);
  EXPECT_EQ(told.slot_microseconds(), 64000u);  // 64 of 32 ms do not reach
  ASSERT_EQ(told.from_size(), 2);
  EXPECT_EQ(told.from(0).bytes_size(), 47);
  EXPECT_EQ(Total(told.from(0)), 3000u);
  for (int slot = 0; slot < 46; ++slot) EXPECT_EQ(told.from(0).bytes(slot), 64u) << slot;
  EXPECT_EQ(told.from(1).bytes(46), 10u);
  EXPECT_EQ(Total(told.from(1)), 10u);
}

// Would break: a fast line that waits for a slow one from the second second on would never show
// what it can.
TEST(ArrivalLog, TheFirstHalfSecondIsKeptInShortSlotsToo) {
  ArrivalLog log;
  log.Begin(kBegan);
  log.Note("a", kBegan, 5);
  log.Note("a", kBegan + absl::Milliseconds(20), 7);
  EXPECT_EQ(log.Report(kBegan)->from(0).opening_size(), 0);  // its slots are as short themselves
  log.Note("a", kBegan + absl::Milliseconds(511), 9);
  log.Note("a", kBegan + absl::Milliseconds(512), 100);
  log.Note("b", kBegan + absl::Seconds(2), 100);
  const v1::Arrivals told = *log.Report(kBegan + absl::Seconds(2));
  ASSERT_EQ(told.from(0).opening_size(), 64);
  for (int slot = 0; slot < 64; ++slot) {
    const uint64_t bytes = slot == 0 ? 5 : slot == 2 ? 7 : slot == 63 ? 9 : 0;
    EXPECT_EQ(told.from(0).opening(slot), bytes) << slot;
  }
  EXPECT_EQ(told.from(1).opening_size(), 0);
}

// Would break: sizes of updates that are those of means too.
TEST(ArrivalLog, UpdatesAreCountedApart) {
  ArrivalLog log;
  log.Begin(kBegan);
  log.Note("a", kBegan, 100);
  log.NoteUpdate(100);
  log.Note("a", kBegan, 30);
  EXPECT_EQ(log.Report(kBegan)->update_bytes(), 100u);
  EXPECT_EQ(Total(log.Report(kBegan)->from(0)), 130u);
  log.Begin(kBegan + absl::Seconds(1));
  EXPECT_EQ(log.Report(kBegan + absl::Seconds(1))->update_bytes(), 0u);
}

// Would break: round trips by the wrong stream, or of the exchange before.
TEST(ArrivalLog, TheFirstOpenOfAnExchangeCounts) {
  ArrivalLog log;
  log.Begin(kBegan);
  log.NoteOpen("a", kBegan - absl::Milliseconds(5));  // it had its plan earlier
  log.NoteOpen("a", kBegan + absl::Seconds(9));
  EXPECT_EQ(log.Report(kBegan)->from(0).opened_microseconds(), -5000);
  log.Begin(kBegan + absl::Seconds(10));
  EXPECT_EQ(log.Report(kBegan + absl::Seconds(10))->from_size(), 0);
  log.Note("a", kBegan + absl::Seconds(11), 7);
  EXPECT_FALSE(log.Report(kBegan + absl::Seconds(11))->from(0).opened());
}

// Would break: peers blamed for coming last by a little, as one of them always does, or for what
// nobody else had to bring.
TEST(ArrivalLog, WhoeverComesWellAfterTheOthersWasWaitedFor) {
  ArrivalLog log;
  const auto at = [](int ms) { return kBegan + absl::Milliseconds(ms); };
  // A chunk each 10 ms, of which a and b bring their pieces at once and c so much later.
  const auto waited_for_c = [&](int later) {
    log.Begin(kBegan);
    for (int chunk = 0; chunk < 10; ++chunk) {
      log.NotePiece("a", chunk, at(10 * chunk), false);
      log.NotePiece("b", chunk, at(10 * chunk), false);
      log.NotePiece("c", chunk, at(10 * chunk + later), true);
    }
    const v1::Arrivals told = *log.Report(at(200));
    EXPECT_EQ(told.averaged_chunks(), 10u);
    uint64_t waited = 0;
    for (const v1::ArrivalsFrom& from : told.from()) {
      EXPECT_TRUE(from.peer() == "c" || from.waited_chunks() == 0) << from.peer();
      if (from.peer() == "c") waited = from.waited_chunks();
    }
    return waited;
  };
  EXPECT_EQ(waited_for_c(5), 0u);
  EXPECT_EQ(waited_for_c(25), 8u);        // the first two are no measure yet
  log.NotePiece("c", 11, at(500), true);  // nobody else was to bring it
  EXPECT_EQ(log.Report(at(500))->averaged_chunks(), 10u);
  log.Begin(at(700));
  EXPECT_EQ(log.Report(at(900))->averaged_chunks(), 0u);
}

// Would break: votes of large runs that no message holds.
TEST(ArrivalLog, OfVeryManyPeersNothingIsTold) {
  ArrivalLog log;
  log.Begin(kBegan);
  for (size_t i = 0; i < ArrivalLog::kMostPeers; ++i) log.Note(std::to_string(i), kBegan, 1);
  EXPECT_TRUE(log.Report(kBegan).has_value());
  log.Note("another", kBegan, 1);
  EXPECT_FALSE(log.Report(kBegan).has_value());
}

}  // namespace
}  // namespace atolld
