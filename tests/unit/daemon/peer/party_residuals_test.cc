#include "daemon/peer/party_residuals.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "tests/sim/sim_disk.h"

namespace atolld {
namespace {

class PartyResidualsTest : public ::testing::Test {
 protected:
  static v1::RunSpec Spec() {
    v1::RunSpec spec;
    spec.mutable_exchange()->set_codec("int4");
    spec.mutable_exchange()->set_chunk_elements(64);
    spec.mutable_exchange()->set_error_feedback(true);
    return spec;
  }

  PartyResidualsTest() { EXPECT_TRUE(residuals_.Clear().ok()); }

  // What is averaged of this update.
  std::vector<float> Average(uint32_t party, bool taken, std::vector<float> update) {
    return Average(party, PartyOutcome{taken}, std::move(update));
  }
  std::vector<float> Average(uint32_t party, const PartyOutcome& last, std::vector<float> update) {
    EXPECT_TRUE(residuals_.Apply(party, last, ++version_, absl::MakeSpan(update)).ok());
    return update;
  }

  SimDisk disk_;
  SimFiles files_{disk_};
  PartyResiduals residuals_{files_, "/p/parties", "p1", Spec()};
  uint64_t version_ = 0;
};

// Values that int4 cannot tell apart, some of which it makes zero.
std::vector<float> SteadyUpdate() {
  std::vector<float> update(100);
  for (size_t i = 0; i < update.size(); ++i) update[i] = 0.001f * static_cast<float>(1 + i % 37);
  return update;
}

TEST_F(PartyResidualsTest, WhatIsLostComesWithALaterUpdate) {
  // Broken: a party would lose the same small values by its codec in every round.
  const std::vector<float> update = SteadyUpdate();
  std::vector<double> sums(update.size(), 0.0);
  constexpr int kRounds = 40;
  for (int round = 0; round < kRounds; ++round) {
    const std::vector<float> averaged = Average(3, /*taken=*/round > 0, update);
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += averaged[i];
  }
  // What is still on the way is at most half a step of the codec.
  for (size_t i = 0; i < sums.size(); ++i) {
    EXPECT_NEAR(sums[i] / kRounds, update[i], 0.004 / kRounds + 1e-6) << i;
  }
}

TEST_F(PartyResidualsTest, AnUpdateThatWasNotTakenChangesNothing) {
  // Broken: what a dropped round has lost would be taken out of, or put into, the next one.
  const std::vector<float> update = SteadyUpdate();
  Average(3, false, update);
  const std::vector<float> second = Average(3, true, update);
  const std::vector<float> again = Average(3, false, update);
  EXPECT_EQ(again, second);
}

TEST_F(PartyResidualsTest, EachPartyHasItsOwnAndARestartNone) {
  // Broken: parties would hand each other what they lost; or what an entry has already would be
  // sent once more after a restart.
  const std::vector<float> update = SteadyUpdate();
  const std::vector<float> first = Average(3, false, update);
  EXPECT_EQ(Average(4, false, update), first);
  EXPECT_NE(Average(3, true, update), first);
  PartyResiduals restarted(files_, "/p/parties", "p1", Spec());
  ASSERT_TRUE(restarted.Clear().ok());
  std::vector<float> after = update;
  ASSERT_TRUE(restarted.Apply(3, {true}, 9, absl::MakeSpan(after)).ok());
  EXPECT_EQ(after, first);
}

TEST_F(PartyResidualsTest, AMeanThatWasScaledDownLeavesAScaledRest) {
  // Broken: what an entry cut off a huge update would come with the party's next ones.
  std::vector<float> huge = SteadyUpdate();
  for (float& value : huge) value *= 1e20f;
  Average(3, {}, huge);
  const std::vector<float> nothing(huge.size(), 0.0f);
  const std::vector<float> next = Average(3, PartyOutcome{true, 1e-20f}, nothing);
  for (const float value : next) EXPECT_LT(std::abs(value), 0.01f);
  EXPECT_NE(next, nothing) << "what the codec has lost of what was taken";
}

TEST_F(PartyResidualsTest, ARefusedMeanTakesItsResidualsAlong) {
  // Broken: a party that was huge once would make each mean of its host too long for any scale.
  const std::vector<float> update = SteadyUpdate();
  const std::vector<float> first = Average(3, {}, update);
  const std::vector<float> second = Average(3, PartyOutcome{true}, update);
  ASSERT_NE(second, first);
  EXPECT_EQ(Average(3, PartyOutcome{false, 1, true}, update), first);
}

TEST_F(PartyResidualsTest, AResidualThatNoUpdateCanTakeIsForgotten) {
  // Broken: the sum would be infinite, and the party never count again.
  std::vector<float> update = SteadyUpdate();
  const std::vector<float> first = Average(3, {}, update);
  std::vector<float> huge(update.size(), 3e38f);
  huge[0] = 2.336e38f;  // 5.45 steps of int4
  Average(3, PartyOutcome{}, huge);
  huge[0] = 3.39e38f;
  Average(3, PartyOutcome{true}, huge);  // with what was lost of the first one it is infinite
  EXPECT_EQ(Average(3, PartyOutcome{}, update), first);
}

TEST_F(PartyResidualsTest, RefusesWhatIsNotFinite) {
  // Broken: a party that diverges once would never be well again: its residual is not finite.
  const std::vector<float> update = SteadyUpdate();
  const std::vector<float> first = Average(3, false, update);
  std::vector<float> bad = update;
  bad[70] = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(residuals_.Apply(3, {}, 8, absl::MakeSpan(bad)).ok());
  EXPECT_EQ(Average(3, false, update), first);
}

}  // namespace
}  // namespace atolld
