// Would break: a machine that trains while its owner needs it, or never.
#include "daemon/config/week_hours.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace atolld {
namespace {

using ::testing::HasSubstr;

const absl::TimeZone kZone = absl::FixedTimeZone(2 * 60 * 60);

// 2026-11-23 is a Monday.
absl::Time At(int day, int hour, int minute = 0, int second = 0) {
  return absl::FromCivil(absl::CivilSecond(2026, 11, 23 + day, hour, minute, second), kZone);
}

bool Open(const std::string& text, absl::Time at) {
  const absl::StatusOr<WeekHours> hours = WeekHours::Parse(text);
  EXPECT_TRUE(hours.ok()) << text << ": " << hours.status();
  return hours->Contains(at, kZone);
}

absl::Duration Until(const std::string& text, absl::Time at) {
  return WeekHours::Parse(text)->UntilChange(at, kZone);
}

TEST(WeekHoursTest, NothingIsAlways) {
  EXPECT_TRUE(Open("", At(0, 0)));
  EXPECT_TRUE(Open("  ", At(6, 23, 59)));
  EXPECT_EQ(Until("", At(3, 3)), absl::InfiniteDuration());
}

TEST(WeekHoursTest, TimesHoldFromTheFirstMinuteToBeforeTheLast) {
  EXPECT_FALSE(Open("09:00-17:30", At(2, 8, 59, 59)));
  EXPECT_TRUE(Open("09:00-17:30", At(2, 9)));
  EXPECT_TRUE(Open("09:00-17:30", At(2, 17, 29, 59)));
  EXPECT_FALSE(Open("09:00-17:30", At(2, 17, 30)));
  EXPECT_TRUE(Open("22:00-24:00", At(2, 23, 59, 59)));
  EXPECT_FALSE(Open("22:00-24:00", At(3, 0)));
}

TEST(WeekHoursTest, OverMidnightTheDaysAreThoseOnWhichItBegins) {
  const std::string text = "mon-fri 18:00-08:00";
  EXPECT_FALSE(Open(text, At(0, 7)));  // Monday morning is Sunday's night
  EXPECT_TRUE(Open(text, At(0, 18)));
  EXPECT_TRUE(Open(text, At(1, 7, 59)));
  EXPECT_FALSE(Open(text, At(1, 8)));
  EXPECT_TRUE(Open(text, At(5, 7, 59)));  // Friday's night ends on Saturday
  EXPECT_FALSE(Open(text, At(5, 18)));
}

TEST(WeekHoursTest, TheWeekAndItsDaysWrap) {
  EXPECT_TRUE(Open("sun 23:00-01:00", At(6, 23, 30)));
  EXPECT_TRUE(Open("sun 23:00-01:00", At(0, 0, 30)));
  EXPECT_FALSE(Open("sun 23:00-01:00", At(0, 1)));
  for (const int day : {4, 5, 6, 0}) EXPECT_TRUE(Open("fri-mon", At(day, 12))) << day;
  for (const int day : {1, 2, 3}) EXPECT_FALSE(Open("fri-mon", At(day, 12))) << day;
}

TEST(WeekHoursTest, AnyPartMayHold) {
  const std::string text = "Mon-Fri 18:00-08:00,  SAT-sun , 12:00-13:00";
  EXPECT_TRUE(Open(text, At(5, 15)));
  EXPECT_TRUE(Open(text, At(2, 12, 30)));
  EXPECT_FALSE(Open(text, At(2, 13)));
}

TEST(WeekHoursTest, AnotherZoneHasOtherHours) {
  const absl::StatusOr<WeekHours> hours = WeekHours::Parse("09:00-17:00");
  EXPECT_TRUE(hours->Contains(At(2, 10), kZone));
  EXPECT_FALSE(hours->Contains(At(2, 10), absl::UTCTimeZone()));  // 08:00 there
}

TEST(WeekHoursTest, TheNextChangeIsToldToTheSecond) {
  EXPECT_EQ(Until("09:00-17:00", At(2, 8, 59, 30)), absl::Seconds(30));
  EXPECT_EQ(Until("09:00-17:00", At(2, 9)), absl::Hours(8));
  EXPECT_EQ(Until("mon-fri 18:00-08:00, sat-sun", At(5, 1)), absl::Hours(47));  // to Monday
  EXPECT_EQ(Until("mon", At(1, 0)), absl::Hours(6 * 24));
  EXPECT_EQ(Until("mon-sun", At(1, 0)), absl::InfiniteDuration());
}

TEST(WeekHoursTest, WhatIsWrongIsNamed) {
  for (const char* text : {"mo", "mon-", "-fri", "mon-fri-sat 08:00-09:00", "25:00-26:00",
                           "08:60-09:00", "8-9", "08:00", "08:00-08:00", "24:00-08:00",
                           "08:00-09:00 mon", "mon 08:00-09:00 x", "mon,", "+8:00-09:00"}) {
    const absl::StatusOr<WeekHours> hours = WeekHours::Parse(text);
    EXPECT_TRUE(absl::IsInvalidArgument(hours.status())) << text;
  }
  EXPECT_THAT(std::string(WeekHours::Parse("sat, 9am").status().message()),
              HasSubstr("'9am' are not times; they look like 18:00-08:00"));
}

}  // namespace
}  // namespace atolld
