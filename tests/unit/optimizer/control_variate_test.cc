#include "optimizer/control_variate.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "compression/simd.h"
#include "tests/unit/compression/test_values.h"

namespace atolld {
namespace {

OuterScalars ControlScalars(float rate, float share) {
  return {{"control_rate", rate}, {"control_share", share}, {"learning_rate", 1.0f}};
}

TEST(ControlVariate, IsItsFormulaBitForBitOnEveryTarget) {
  // Broken: replicas on different CPUs would hold different variates, and the digests would differ.
  constexpr size_t kElements = 1021;
  const ControlVariate step = *ControlVariate::Make(ControlScalars(12.7f, 0.3f));
  std::vector<float> wanted(kElements, 0.0f);
  std::vector<std::vector<float>> controls(SimdTargetNames().size(),
                                           std::vector<float>(kElements, 0.0f));
  for (uint64_t round = 0; round < 5; ++round) {
    const std::vector<float> mean = BellValues(kElements, 77 + round);
    for (size_t i = 0; i < kElements; ++i) {
      const volatile float target = 12.7f * mean[i];
      const volatile float away = target - wanted[i];
      const volatile float change = 0.3f * away;
      const volatile float moved = wanted[i] + change;
      wanted[i] = moved;
    }
    for (size_t t = 0; t < controls.size(); ++t) {
      const ScopedSimdTarget cpu(SimdTargetNames()[t]);
      step.Step(mean, absl::MakeSpan(controls[t]));
      EXPECT_TRUE(SameBits(controls[t], wanted)) << SimdTargetNames()[t];
    }
  }
}

TEST(ControlVariate, IsTheMeanOfThePartiesOwn) {
  // Broken: what is called SCAFFOLD would correct parties by something else than its paper's c.
  // Four parties of which two are drawn, then the others; gradients that do not depend on theta, so
  // each c_i is its party's gradient from its first round on, and c ends as their mean.
  constexpr double kRate = 0.05;
  constexpr double kSteps = 8;
  const std::vector<double> gradients = {1.0, -2.0, 4.0, 0.5};
  std::vector<double> own(4, 0.0);
  double common = 0;
  std::vector<float> control(1, 0.0f);
  const ControlVariate step =
      *ControlVariate::Make(ControlScalars(static_cast<float>(1 / (kRate * kSteps)), 0.5f));
  const std::vector<std::vector<size_t>> rounds = {{0, 1}, {2, 3}, {1, 2}};
  for (const std::vector<size_t>& drawn : rounds) {
    double deltas = 0, changes = 0;
    for (const size_t party : drawn) {
      const double delta = kRate * kSteps * (gradients[party] - own[party] + common);
      const double next = own[party] - common + delta / (kRate * kSteps);  // option II
      changes += next - own[party];
      deltas += delta;
      own[party] = next;
    }
    common += 0.5 * changes / 2;  // |S| / N times the mean change
    const std::vector<float> mean = {static_cast<float>(deltas / 2)};
    step.Step(mean, absl::MakeSpan(control));
    EXPECT_NEAR(control[0], common, 1e-5);
    for (const size_t party : drawn) EXPECT_NEAR(own[party], gradients[party], 1e-12);
  }
  EXPECT_NEAR(common, 3.5 / 4, 1e-12);
}

TEST(ControlVariate, RefusesScalarsThatMakeNoSense) {
  // Broken: a header with NaN in it would reach every replica, or a run without variates would be
  // taken for one with.
  EXPECT_TRUE(absl::IsNotFound(ControlVariate::Make({{"learning_rate", 1.0f}}).status()));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const OuterScalars& bad :
       {OuterScalars{{"control_rate", 1.0f}}, OuterScalars{{"control_share", 1.0f}},
        ControlScalars(0, 0.5f), ControlScalars(nan, 0.5f), ControlScalars(1, 0),
        ControlScalars(1, 1.5f), ControlScalars(1, nan)}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ControlVariate::Make(bad).status()));
  }
}

}  // namespace
}  // namespace atolld
