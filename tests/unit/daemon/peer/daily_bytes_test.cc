// Would break: a restart or a clock that is set back gives a machine the bytes of a day twice.
#include "daemon/peer/daily_bytes.h"

#include <memory>
#include <string>

#include "compression/base/check.h"
#include "gtest/gtest.h"
#include "tests/sim/sim_world.h"

namespace atolld {
namespace {

constexpr char kPath[] = "/peer/bytes-today";

TEST(DayCountTest, OnlyALaterDayBeginsAnew) {
  const DayCount count{absl::CivilDay(2025, 3, 9), {1000, 50}};
  const DayCount same = Advance(count, count.day, {5, 2});
  EXPECT_EQ(same.bytes.sent, 1005u);
  EXPECT_EQ(same.bytes.received, 52u);
  const DayCount later = Advance(count, count.day + 1, {5, 2});
  EXPECT_EQ(later.bytes.sent, 5u);
  EXPECT_EQ(later.bytes.received, 2u);
  EXPECT_EQ(later.day, count.day + 1);
  const DayCount back = Advance(count, count.day - 3, {5, 2});
  EXPECT_EQ(back.bytes.sent, 1005u) << "nobody gets a day twice";
  EXPECT_EQ(Advance(back, back.day + 1, {7, 2}).bytes.sent, 7u)
      << "nor is a clock that was ahead for ever";
}

TEST(DayCountTest, TheFileSaysWhatWasCounted) {
  const DayCount count{absl::CivilDay(2025, 1, 31), {uint64_t{1} << 50, 3}};
  const auto read = ParseDayCount(FormatDayCount(count));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->day, count.day);
  EXPECT_EQ(read->bytes.sent, count.bytes.sent);
  EXPECT_EQ(read->bytes.received, count.bytes.received);
  for (const char* wrong :
       {"", "2025-01-31", "2025-01-31 5 -4", "yesterday 5 6", "2025-01-31 5", "2025-01-31 5 6 7"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseDayCount(wrong).status())) << wrong;
  }
}

// A process that passes bytes as the test says.
class DailyBytesTest : public ::testing::Test {
 protected:
  DailyBytesTest() : world_(1) {
    world_.AddProcess("p", [this](Env env) {
      passed_ = {};
      CHECK_OK(env.files.MakeDirectories("/peer"));
      auto made =
          std::make_shared<DailyBytes>(env, kPath, absl::UTCTimeZone(), [this] { return passed_; });
      made->Start();
      daily_ = made.get();
      return made;
    });
    // To noon, whatever the world's first day is.
    const absl::Time now = world_.process("p").env().executor.WallTime();
    const absl::CivilDay day = absl::ToCivilDay(now, absl::UTCTimeZone());
    const absl::Time noon = absl::FromCivil(absl::CivilHour(day + 1) + 12, absl::UTCTimeZone());
    world_.StepWallClock("p", noon - now);
    daily_->Today();
  }

  void Restart() {
    world_.Kill("p");
    world_.RunFor(absl::Seconds(1));
    world_.Restart("p");
    world_.RunFor(absl::Seconds(1));
  }

  SimWorld world_;
  BytesToday passed_;
  DailyBytes* daily_ = nullptr;
};

TEST_F(DailyBytesTest, ACrashLosesWhatTheLastHalfMinuteCounted) {
  passed_.sent = 5000;
  EXPECT_EQ(daily_->Today().sent, 5000u);
  world_.RunFor(DailyBytes::kBetweenSaves + absl::Seconds(1));
  passed_.sent = 6000;
  EXPECT_EQ(daily_->Today().sent, 6000u);
  Restart();
  EXPECT_EQ(daily_->Today().sent, 5000u);
  passed_.sent = 10;
  EXPECT_EQ(daily_->Today().sent, 5010u);
  CHECK_OK(daily_->Save());
  Restart();
  EXPECT_EQ(daily_->Today().sent, 5010u) << "an end loses nothing";
}

TEST_F(DailyBytesTest, MidnightBeginsAnewAlsoWhileNobodyLooks) {
  passed_.sent = 5000;
  EXPECT_EQ(daily_->Today().sent, 5000u);
  world_.StepWallClock("p", absl::Hours(11));
  passed_.sent = 5100;
  EXPECT_EQ(daily_->Today().sent, 5100u);
  world_.StepWallClock("p", absl::Hours(2));
  passed_.sent = 5130;
  EXPECT_EQ(daily_->Today().sent, 30u);
  CHECK_OK(daily_->Save());
  world_.StepWallClock("p", absl::Hours(24));
  Restart();
  EXPECT_EQ(daily_->Today().sent, 0u);
}

TEST_F(DailyBytesTest, AClockThatIsSetBackCarriesTheCountThere) {
  passed_.sent = 5000;
  EXPECT_EQ(daily_->Today().sent, 5000u);
  world_.StepWallClock("p", -absl::Hours(48));
  passed_.sent = 5001;
  EXPECT_EQ(daily_->Today().sent, 5001u);
  CHECK_OK(daily_->Save());
  world_.StepWallClock("p", -absl::Hours(24));
  Restart();
  EXPECT_EQ(daily_->Today().sent, 5001u);
}

TEST_F(DailyBytesTest, AFileThatNobodyCanReadIsSaidAndCountsForNothing) {
  Env env = world_.process("p").env();
  CHECK_OK(WriteFileDurably(env.files, kPath, BytesOf(std::string("what is this?"))));
  Restart();
  EXPECT_EQ(daily_->Today().sent, 0u);
  EXPECT_EQ(world_.LogCount("counted from now on"), 1u);
  passed_.sent = 7;
  EXPECT_EQ(daily_->Today().sent, 7u);
}

}  // namespace
}  // namespace atolld
