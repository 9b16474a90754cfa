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
  EXPECT_EQ(StepsFor({Kind::kFixed, absl::Seconds(9)}, 40, absl::Milliseconds(10), all), 40u);
  EXPECT_EQ(StepsFor({Kind::kAuto, {}}, 40, absl::Milliseconds(10), all), 80u);
  EXPECT_EQ(StepsFor({Kind::kAuto, {}}, 40, absl::Milliseconds(20), all), 40u);
  EXPECT_EQ(StepsFor({Kind::kAuto, {}}, 40, absl::Milliseconds(80), all), 10u);
  EXPECT_EQ(StepsFor({Kind::kTime, absl::Seconds(1)}, 40, absl::Milliseconds(80), all), 12u);
}

// Would break: one absurd measurement gives a peer no steps, or so many that the round never ends.
TEST(Pace, StaysWithinBounds) {
  const std::vector<absl::Duration> all = {absl::Nanoseconds(1), absl::Seconds(1),
                                           absl::Seconds(2)};
  EXPECT_EQ(StepsFor({Kind::kAuto, {}}, 10, absl::Nanoseconds(1), all), 160u);
  EXPECT_EQ(StepsFor({Kind::kAuto, {}}, 10, absl::Hours(9), all), 1u);
  EXPECT_EQ(StepsFor({Kind::kAuto, {}}, 10, absl::ZeroDuration(), all), 10u);
  EXPECT_EQ(StepsFor({Kind::kTime, absl::Hours(9)}, 10, absl::Nanoseconds(1), all), 1000000u);
  EXPECT_EQ(StepsFor({Kind::kTime, absl::Seconds(1)}, 10, absl::Hours(1), all), 1u);
}

// Would break: the measured speed never reaches the next Train, or its lease has another size than
// its steps.
TEST(Pace, TheNextTrainFollowsTheCommittedRound) {
  SimulatedPeers peers(2, 2);
  peers.settings.pace.kind = Kind::kAuto;
  peers.Restart();
  peers.Begin({"a", "b"});
  const uint32_t steps = peers.Train("a")->steps();
  ASSERT_EQ(peers.Train("b")->steps(), steps);
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

}  // namespace
}  // namespace atolld
