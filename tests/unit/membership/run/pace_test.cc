#include "membership/run/pace.h"

#include "gtest/gtest.h"
#include "tests/unit/membership/run/simulated_peers.h"

namespace atolld {
namespace {

using Kind = PaceSettings::Kind;

// Would break: a fast machine idles while a slow one does its fixed H, although the run asked for
// balance; or a run that asked for a fixed H gets something else.
TEST(Pace, FollowsTheMeasuredSpeed) {
  const std::vector<absl::Duration> all = {absl::Milliseconds(10), absl::Milliseconds(20),
                                           absl::Milliseconds(80)};
  EXPECT_EQ(StepsFor({Kind::kFixed, absl::Seconds(9)}, 40, absl::Milliseconds(10), all).steps, 40u);
  EXPECT_EQ(StepsFor({Kind::kAuto, {}}, 40, absl::Milliseconds(10), all).steps, 80u);
  EXPECT_EQ(StepsFor({Kind::kAuto, {}}, 40, absl::Milliseconds(20), all).steps, 40u);
  EXPECT_EQ(StepsFor({Kind::kAuto, {}}, 40, absl::Milliseconds(80), all).steps, 10u);
  EXPECT_EQ(StepsFor({Kind::kTime, absl::Seconds(1)}, 40, absl::Milliseconds(80), all).steps, 12u);
}

// Would break: until the first commit the fast machines wait for one that does eight times what it
// can; or the deadline of the second round is that of a first one of a few steps.
TEST(Pace, AnUnknownSpeedIsMeasuredWithFewSteps) {
  const std::vector<absl::Duration> others = {absl::Seconds(1)};
  for (const Kind kind : {Kind::kAuto, Kind::kTime}) {
    const PacedSteps steps = StepsFor({kind, absl::Seconds(9)}, 40, {}, others);
    EXPECT_EQ(steps.steps, 5u);
    EXPECT_EQ(steps.rounds, 0.125);
    EXPECT_EQ(StepsFor({kind, absl::Seconds(9)}, 4, {}, {}).steps, 1u);
  }
  EXPECT_EQ(StepsFor({Kind::kFixed, {}}, 40, {}, others).steps, 40u);
  EXPECT_EQ(StepsFor({Kind::kAuto, {}}, 40, absl::Seconds(2), others).rounds, 1);
}

// Would break: the cold first steps of a peer count for rounds on as much as a whole round does, or
// one hiccup takes its work away.
TEST(Pace, ASpeedIsThatOfMostSteps) {
  StepTimes times;
  EXPECT_TRUE(times.empty());
  EXPECT_EQ(times.Median(), absl::ZeroDuration());
  times.Add(absl::Milliseconds(50), 5);
  EXPECT_EQ(times.Median(), absl::Milliseconds(50));
  times.Add(absl::Milliseconds(10), 40);
  EXPECT_EQ(times.Median(), absl::Milliseconds(10));
  times.Add(absl::Milliseconds(11), 40);
  times.Add(absl::Seconds(60), 40);
  EXPECT_EQ(times.Median(), absl::Milliseconds(11));
  for (int i = 0; i < 3; ++i) times.Add(absl::Milliseconds(80), 40);
  EXPECT_EQ(times.Median(), absl::Milliseconds(80)) << "slower for good";
}

// Would break: one absurd measurement gives a peer no steps, or so many that the round never ends.
TEST(Pace, StaysWithinBounds) {
  const std::vector<absl::Duration> all = {absl::Nanoseconds(1), absl::Seconds(1),
                                           absl::Seconds(2)};
  EXPECT_EQ(StepsFor({Kind::kAuto, {}}, 10, absl::Nanoseconds(1), all).steps, 160u);
  EXPECT_EQ(StepsFor({Kind::kAuto, {}}, 10, absl::Hours(9), all).steps, 1u);
  EXPECT_EQ(StepsFor({Kind::kTime, absl::Hours(9)}, 10, absl::Nanoseconds(1), all).steps, 1000000u);
  EXPECT_EQ(StepsFor({Kind::kTime, absl::Seconds(1)}, 10, absl::Hours(1), all).steps, 1u);
}

// Would break: the measured speed never reaches the next Train, or its lease has another size than
// its steps.
TEST(Pace, TheNextTrainFollowsTheCommittedRound) {
  SimulatedPeers peers(2, 2);
  peers.settings.pace.kind = Kind::kAuto;
  peers.Restart();
  peers.Begin({"a", "b"});
  const uint32_t steps = peers.stored.spec->inner().steps();
  const uint32_t measuring = peers.Train("a")->steps();
  ASSERT_EQ(measuring, std::max(1u, steps / 8));
  ASSERT_EQ(peers.Train("b")->steps(), measuring);
  peers.train_seconds["a"] = 1;
  peers.train_seconds["b"] = 2;
  peers.Commit({"a", "b"});
  EXPECT_EQ(peers.Train("a")->version(), 2u);
  EXPECT_EQ(peers.Train("b")->steps(), steps);
  EXPECT_EQ(peers.Train("a")->steps(), 2 * steps);
  uint64_t leased = 0;
  for (const v1::SampleRange& range : peers.Train("a")->samples()) leased += range.count();
  EXPECT_EQ(leased, uint64_t{2} * steps * peers.stored.spec->inner().batch());
}

// -----------------------------------------------------------------------------------------------

RecentTimes Times(std::initializer_list<double> seconds, size_t capacity = 16) {
  RecentTimes times(capacity);
  for (const double second : seconds) times.Add(absl::Seconds(second));
  return times;
}

// Would break: rounds that wait for stragglers for ever, or that drop peers of ordinary speed.
TEST(TrainDeadline, FollowsMedianAndSpread) {
  EXPECT_FALSE(TrainDeadline(Times({})).has_value());
  const struct {
    std::initializer_list<double> seconds;
    double deadline;
  } cases[] = {
      {{10}, 13.5},              // 1.25 x 10 + 1
      {{10, 10, 10, 90}, 13.5},  // one outlier moves nothing
      {{8, 10, 12}, 17},         // 10 + 3 x 2 + 1
      {{8, 12}, 17},
      {{0, 0}, 1},
  };
  for (const auto& one : cases) {
    EXPECT_EQ(*TrainDeadline(Times(one.seconds)), absl::Seconds(one.deadline));
  }
}

// Would break: a run whose peers become slower keeps the deadline of its first rounds.
TEST(RecentTimes, ForgetTheOldest) {
  EXPECT_EQ(Times({1, 1, 1, 9, 9}, 2).Median(), absl::Seconds(9));
}

// Would break: exchanges given up too early on slow links.
TEST(ExchangeDeadline, IsTwiceThePredictionAndTheFailureTimeout) {
  EXPECT_EQ(ExchangeDeadline(Times({3, 5, 4}), 1, 0, absl::Seconds(10)), absl::Seconds(18));
  EXPECT_EQ(ExchangeDeadline(Times({}), 1000000, 0, absl::Seconds(10)), absl::Seconds(18));
}

// Would break: a run on slow lines that tries its first exchange for ever, always for too short.
TEST(ExchangeDeadline, GrowsWithEachExchangeThatWasGivenUp) {
  EXPECT_EQ(ExchangeDeadline(Times({}), 1000000, 3, absl::Seconds(10)), absl::Seconds(74));
  EXPECT_EQ(ExchangeDeadline(Times({4}), 1, 1, absl::Seconds(10)), absl::Seconds(26));
  EXPECT_EQ(ExchangeDeadline(Times({4}), 1, 1000, absl::Seconds(10)),
            ExchangeDeadline(Times({4}), 1, 5, absl::Seconds(10)));
}

// Would break: an evaluator that hangs holds the end of the run for ever, or one that is only slow
// is not waited for.
TEST(EvaluationPatience, FollowsSharesAndTrainingOfWhichThereAreMeasures) {
  EXPECT_EQ(EvaluationPatience(Times({2, 3, 4}), Times({10}), absl::Seconds(10)),
            absl::Seconds(92));
  EXPECT_EQ(EvaluationPatience(Times({}), Times({10}), absl::Seconds(10)), absl::Seconds(80));
  EXPECT_EQ(EvaluationPatience(Times({}), Times({}), absl::Seconds(10)), absl::Minutes(10));
}

// Would break: a maker of version 0 that hangs holds the run for ever, or a large model on a thin
// line never gets as long as it takes.
TEST(StateDeadline, FollowsTheSizeAndGrowsWithEachTimeInVain) {
  EXPECT_EQ(StateDeadline(1000000, 0, absl::Seconds(10)), absl::Seconds(66));
  EXPECT_EQ(StateDeadline(1000000, 2, absl::Seconds(10)), absl::Seconds(4 * 66));
  EXPECT_EQ(StateDeadline(1000000, 1000, absl::Seconds(10)), absl::Seconds(32 * 66));
}

// Would break: in mode "async" a slow run's entries wait for minutes, or no two updates of a fast
// one ever share an entry.
TEST(AsyncGrace, IsATenthOfTheMedianAndASecondAtMost) {
  RecentTimes times(8);
  EXPECT_EQ(AsyncGrace(times), absl::ZeroDuration());
  for (const double seconds : {1.0, 2.0, 90.0}) times.Add(absl::Seconds(seconds));
  EXPECT_EQ(AsyncGrace(times), absl::Milliseconds(200));
  for (int i = 0; i < 5; ++i) times.Add(absl::Seconds(90));
  EXPECT_EQ(AsyncGrace(times), absl::Seconds(1));
}

// Would break: a run of thousands looks at all of them for each message of each; or a look that was
// put off is never taken; or a small run is slower than its messages.
TEST(LookPace, ALookAtManyIsPutOff) {
  const absl::Time now = absl::UnixEpoch();
  LookPace pace;
  EXPECT_TRUE(pace.May(now, 10));
  EXPECT_TRUE(pace.May(now, 10));
  pace.Reset();
  int looks = 0;
  for (int i = 0; i < 1000; ++i) looks += pace.May(now + i * absl::Milliseconds(1), 10000) ? 1 : 0;
  EXPECT_EQ(looks, 10);
  EXPECT_EQ(pace.Next(), now + absl::Seconds(1));
  EXPECT_TRUE(pace.May(pace.Next(), 10000));
  EXPECT_EQ(pace.Next(), absl::InfiniteFuture());
  EXPECT_FALSE(pace.May(now + absl::Seconds(1), 10000));
  pace.Reset();
  EXPECT_TRUE(pace.May(now + absl::Seconds(1), 10000));
}

}  // namespace
}  // namespace atolld
