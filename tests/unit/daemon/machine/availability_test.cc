// Would break: parties are there at other times than their trace says.
#include "daemon/machine/availability.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace atolld {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Availability Parsed(const std::string& text) {
  absl::StatusOr<Availability> trace = Availability::Parse(text);
  EXPECT_TRUE(trace.ok()) << trace.status();
  return trace.ok() ? *std::move(trace) : *Availability::Parse("1 never");
}

std::string TraceFault(const std::string& text) {
  return std::string(Availability::Parse(text).status().message());
}

constexpr double kNever = std::numeric_limits<double>::infinity();

TEST(AvailabilityTest, TimesBeginAndEndWhereTheyAreSaid) {
  // Broken: a time's end counts, or its beginning does not.
  const Availability trace = Parsed("# parties\na 10-20,30-40  # two\nb always\nc never\n");
  EXPECT_FALSE(trace.There(0, 9.9));
  EXPECT_TRUE(trace.There(0, 10));
  EXPECT_TRUE(trace.There(0, 19.9));
  EXPECT_FALSE(trace.There(0, 20));
  EXPECT_TRUE(trace.There(0, 30));
  EXPECT_FALSE(trace.There(0, 1e6)) << "without a period it ends";
  EXPECT_EQ(trace.SecondsUntilChange(0, 0), 10);
  EXPECT_EQ(trace.SecondsUntilChange(0, 12), 8);
  EXPECT_EQ(trace.SecondsUntilChange(0, 25), 5);
  EXPECT_EQ(trace.SecondsUntilChange(0, 40), kNever);
  EXPECT_TRUE(trace.There(1, 1e9));
  EXPECT_EQ(trace.SecondsUntilChange(1, 3), kNever);
  EXPECT_FALSE(trace.There(2, 0));
}

TEST(AvailabilityTest, PeriodsWrapAround) {
  // Broken: a night that goes over midnight is two, or the second day differs from the first.
  const Availability trace = Parsed("period 100\n1 80-100,0-10\n2 always\n");
  EXPECT_TRUE(trace.There(0, 95));
  EXPECT_TRUE(trace.There(0, 105));
  EXPECT_FALSE(trace.There(0, 110));
  EXPECT_TRUE(trace.There(0, 1e6 + 81));
  EXPECT_EQ(trace.SecondsUntilChange(0, 95), 15) << "through the end of the period";
  EXPECT_EQ(trace.SecondsUntilChange(0, 310), 70);
  EXPECT_TRUE(trace.There(0, -5)) << "before it began";
  EXPECT_EQ(trace.SecondsUntilChange(1, 7), kNever);
}

TEST(AvailabilityTest, FedScalesFormIsRead) {
  // Broken: published traces cannot be used. The first client is the one that FedScale's source
  // shows, the others are made up; a pair that ends before it begins counts for nothing.
  const Availability trace = Parsed(R"({
    "3834": {"duration": 211625, "inactive": [65881, 133574], "finish_time": 518400,
             "active": [12788, 100044], "model": "CPH1801"},
    "10": {"duration": 1, "inactive": [5, 20], "finish_time": 100, "active": [7, 10]}})");
  EXPECT_EQ(trace.lines(), 2u);
  const size_t first = *trace.LineOf("3834");
  EXPECT_FALSE(trace.There(first, 12787));
  EXPECT_TRUE(trace.There(first, 12788));
  EXPECT_FALSE(trace.There(first, 70000));
  EXPECT_TRUE(trace.There(first, 518400 + 100044));
  EXPECT_EQ(trace.SecondsUntilChange(first, 133574), 518400 - 133574 + 12788);
  const size_t second = *trace.LineOf("10");
  EXPECT_EQ(trace.LineOfNumber(1), second) << "10 comes before 3834";
  EXPECT_FALSE(trace.There(second, 6));
  EXPECT_TRUE(trace.There(second, 115)) << "each has its own period";
  EXPECT_THAT(TraceFault("{\"1\": {\"active\": []}}"), HasSubstr("client '1' has no finish_time"));
  EXPECT_THAT(TraceFault("{\"1\": "), HasSubstr("not a JSON object"));
}

TEST(AvailabilityTest, PartiesAreFoundByNameOrByNumber) {
  // Broken: a peer follows another's line, or a thousand parties need a thousand lines.
  const Availability trace = Parsed("a 0-1\n2 0-2\nb 0-3\n");
  EXPECT_EQ(*trace.LineOf("b"), 2u);
  EXPECT_EQ(trace.LineOfNumber(2), 1u) << "by its name";
  EXPECT_EQ(trace.LineOfNumber(1), 0u);
  EXPECT_EQ(trace.LineOfNumber(6), 2u) << "round and round";
  EXPECT_THAT(std::string(trace.LineOf("c").status().message()), HasSubstr("unknown party"));
  EXPECT_EQ(NumberOfPeer("site-12"), 12u);
  EXPECT_EQ(NumberOfPeer("peer"), 0u);
}

TEST(AvailabilityTest, WrongLinesAreNamed) {
  // Broken: a misspelt trace is taken for another.
  EXPECT_THAT(TraceFault("1 0-10\n2 5\n"),
              HasSubstr("2: '5' is not a time; one looks like 0-3600"));
  EXPECT_THAT(TraceFault("1 10-5\n"), HasSubstr("must end after it begins"));
  EXPECT_THAT(TraceFault("period 50\n1 10-60\n"), HasSubstr("2: '10-60' must end"));
  EXPECT_THAT(TraceFault("1 0-1\nperiod 5\n"), HasSubstr("before the first party"));
  EXPECT_THAT(TraceFault("1 0-1\n1 2-3\n"), HasSubstr("has a line already"));
  EXPECT_THAT(TraceFault("1\n"), HasSubstr("is not a line"));
  EXPECT_THAT(TraceFault("1 0-x\n"), HasSubstr("'x' is not a number of seconds"));
  EXPECT_THAT(TraceFault("# nobody\n"), HasSubstr("it has no party"));
}

TEST(TraceFollowerTest, AReasonComesBesideOthersAndSaysWhenItEnds) {
  // Broken: an owner is told that a machine is away when it was paused, or not until when.
  const TraceFollower follower(Parsed("period 100\n1 0-50\n"), 0, 2);
  const absl::TimeZone utc = absl::UTCTimeZone();
  const absl::Time began = absl::FromUnixSeconds(1000000000);
  MachineVerdict verdict;
  follower.Restrict(began, began + absl::Seconds(10), utc, &verdict);
  EXPECT_TRUE(verdict.may_train);
  EXPECT_NEAR(absl::ToDoubleSeconds(verdict.changes - began), 25, 1e-3);
  follower.Restrict(began, began + absl::Seconds(30), utc, &verdict);
  EXPECT_FALSE(verdict.may_train);
  EXPECT_FALSE(verdict.may_exchange);
  EXPECT_THAT(verdict.reasons, ElementsAre("away by its trace until 01:47:30"));
  EXPECT_NEAR(absl::ToDoubleSeconds(verdict.changes - began), 50, 1e-3);
  MachineVerdict paused;
  paused.may_train = false;
  paused.reasons = {"paused by its owner"};
  follower.Restrict(began, began + absl::Seconds(30), utc, &paused);
  EXPECT_EQ(paused.reasons.front(), "paused by its owner");
  EXPECT_EQ(paused.changes, absl::InfiniteFuture());
}

}  // namespace
}  // namespace atolld
