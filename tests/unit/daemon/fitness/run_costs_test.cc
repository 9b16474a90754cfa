// Would break: a volunteer learns what a run takes of the line when the month's bill comes.
#include "daemon/fitness/run_costs.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Weight = Finding::Weight;

v1::RunSpec SpecOf(uint64_t parameters) {
  v1::RunSpec spec;
  spec.mutable_model()->set_kind("stub");
  spec.mutable_model()->set_parameters(parameters);
  spec.mutable_inner()->set_steps(50);
  spec.mutable_inner()->set_step_microseconds(200000);
  spec.mutable_exchange()->set_codec("int8");
  spec.mutable_exchange()->set_chunk_elements(65536);
  return spec;
}

// 10 MB of updates, 10 s of training, a line of 1.25 MB/s.
const LineSpeed kTenMegabits{1.25e6, 1.25e6};

TEST(RunCostsTest, ARoundThatDialsOutSendsItsUpdateAndReceivesTheMean) {
  const RoundCost cost = CostOf(SpecOf(10000000), 4, /*dialled=*/false, 0.2, kTenMegabits);
  EXPECT_NEAR(cost.up_bytes, 10.7e6, 0.2e6) << "a byte a parameter, and what packets add";
  EXPECT_NEAR(cost.down_bytes, 10.7e6, 0.2e6);
  EXPECT_DOUBLE_EQ(cost.train_seconds, 10);
  EXPECT_NEAR(cost.exchange_seconds, 8, 0.2);
  EXPECT_NEAR(cost.rounds_a_day(), 86400 / 18.0, 60);
  EXPECT_NEAR(cost.bytes_a_day(), 21.4e6 * 4800, 3e9);
  EXPECT_NEAR(cost.state_bytes, 85.6e6, 1e6);
}

TEST(RunCostsTest, WhoIsDialledAveragesAShareForTheOthers) {
  const RoundCost cost = CostOf(SpecOf(10000000), 4, /*dialled=*/true, 0.2, kTenMegabits);
  EXPECT_NEAR(cost.up_bytes, 1.5 * 10.7e6, 0.3e6) << "3 of 4 parts of an update and of a mean";
  EXPECT_NEAR(cost.up_bytes, cost.down_bytes, 1e5);
}

TEST(RunCostsTest, WhatIsNotKnownIsNotMadeUp) {
  const RoundCost no_speed = CostOf(SpecOf(10000000), 4, false, 0, kTenMegabits);
  EXPECT_EQ(no_speed.rounds_a_day(), 0);
  const std::vector<Finding> said = CostFindings(no_speed, MachineConfig());
  ASSERT_EQ(said.size(), 2u);
  EXPECT_THAT(said[1].line, Not(HasSubstr("a day")));
  v1::RunSpec foreign = SpecOf(1);
  foreign.mutable_model()->set_kind("external");
  EXPECT_TRUE(CostFindings(CostOf(foreign, 4, false, 1, kTenMegabits), MachineConfig()).empty());
}

TEST(RunCostsTest, ADaysCostIsComparedWithTheOwnersLimit) {
  const RoundCost cost = CostOf(SpecOf(10000000), 4, false, 0.2, kTenMegabits);
  MachineConfig machine;
  EXPECT_EQ(CostFindings(cost, machine)[1].weight, Weight::kGood);
  EXPECT_THAT(CostFindings(cost, machine)[1].line, HasSubstr("rounds and 10"));
  machine.bytes_a_day = 10000000000;
  const Finding limited = CostFindings(cost, machine)[1];
  EXPECT_EQ(limited.weight, Weight::kDoubtful);
  EXPECT_THAT(limited.line, HasSubstr("pauses it after about 2:"));
}

TEST(RunCostsTest, CapsCountInPlaceOfAFasterLine) {
  MachineConfig machine;
  machine.up_cap = 125000;  // 1 Mbit/s
  const LineSpeed left = UnderCaps(kTenMegabits, machine);
  EXPECT_NEAR(left.up, 0.93 * 125000, 1);
  EXPECT_DOUBLE_EQ(left.down, 1.25e6);
  const Finding line = LineFinding(kTenMegabits, machine);
  EXPECT_EQ(line.weight, Weight::kGood);
  EXPECT_THAT(line.line, HasSubstr("line: 10 Mbit/s up and 10 Mbit/s down"));
  EXPECT_THAT(line.line, HasSubstr("caps: 1 Mbit/s up, none down"));
  const RoundCost cost = CostOf(SpecOf(10000000), 4, false, 0.2, left);
  EXPECT_THAT(CostFindings(cost, machine)[1].line, HasSubstr("what others wait for"));
  EXPECT_EQ(LineFinding(LineSpeed{1e4, 1e6}, MachineConfig()).weight, Weight::kDoubtful);
  EXPECT_THAT(LineFinding(LineSpeed{5e9, 1.25e6}, MachineConfig()).line,
              HasSubstr("line: over 1000 Mbit/s up and 10 Mbit/s down"));
  const Finding none = LineFinding(absl::UnavailableError("nobody is there"), machine);
  EXPECT_EQ(none.line, "line: not measured: nobody is there");
  EXPECT_EQ(none.weight, Weight::kDoubtful);
}

TEST(RunCostsTest, TheSpeedOfAStepIsThatOfARoundToo) {
  const absl::StatusOr<StepSpeed> stub = MeasureStep("", SpecOf(10), 1, "auto", 1);
  ASSERT_TRUE(stub.ok()) << stub.status();
  EXPECT_DOUBLE_EQ(stub->step_seconds, 0.2);
  EXPECT_EQ(SpeedFinding(stub, SpecOf(10)).line,
            "speed: 0.2 s an inner step, as the run says; the 50 steps of a round take 10 s");
  const Finding good = SpeedFinding(StepSpeed{0.42, 3900, "cpu"}, SpecOf(10));
  EXPECT_EQ(good.weight, Weight::kGood);
  EXPECT_EQ(good.line,
            "speed: 0.42 s an inner step, 3.9k tokens/s on cpu; the 50 steps of a round take 21 s");
  EXPECT_EQ(SpeedFinding(StepSpeed{100, 16, "cpu"}, SpecOf(10)).weight, Weight::kDoubtful);
  v1::RunSpec foreign = SpecOf(10);
  foreign.mutable_model()->set_kind("torchscript");
  const Finding unknown = SpeedFinding(MeasureStep("", foreign, 1, "auto", 1), foreign);
  EXPECT_EQ(unknown.weight, Weight::kGood) << "nothing is wrong with the machine";
  EXPECT_THAT(unknown.line, HasSubstr("not measured"));
}

}  // namespace
}  // namespace atolld
