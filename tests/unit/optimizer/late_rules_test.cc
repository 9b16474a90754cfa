// The outer rules for late updates, delayed Nesterov and CGAD, and what corrects late means.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "compression/simd.h"
#include "optimizer/outer_rule.h"
#include "tests/unit/compression/test_values.h"

namespace atolld {
namespace {

using ::testing::ElementsAre;

// A replica of one parameter.
struct OneValue {
  explicit OneValue(const std::string& name)
      : rule(**FindOuterRule(name)), buffers(rule.buffers().size(), {0.0f}) {}

  absl::Status Step(const OuterScalars& scalars, float mean) {
    std::vector<absl::Span<float>> spans;
    for (std::vector<float>& buffer : buffers) spans.push_back(absl::MakeSpan(buffer));
    return rule.Step(scalars, {mean}, absl::MakeSpan(theta), spans);
  }

  const OuterRule& rule;
  std::vector<float> theta = {10};
  std::vector<std::vector<float>> buffers;
};

OuterScalars DelayedScalars(float due, float share, float rest = 0) {
  return {
      {"due", due}, {"learning_rate", 0.5f}, {"momentum", 0.5f}, {"rest", rest}, {"share", share}};
}

TEST(DelayedNesterov, FollowsItsPaper) {
  // Broken: momentum would be taken more than once of what came in one period, which is what makes
  // plain Nesterov diverge. N = 2, updates 2, 4, 2, 2, each worth g / N.
  OneValue state("delayed_nesterov");
  ASSERT_TRUE(state.Step(DelayedScalars(0, 0.5f), 2).ok());
  EXPECT_EQ(state.theta[0], 9.5f);  // 10 - 0.5 x 1
  EXPECT_THAT(state.buffers, ElementsAre(ElementsAre(1), ElementsAre(0)));
  ASSERT_TRUE(state.Step(DelayedScalars(1, 0.5f), 4).ok());
  EXPECT_EQ(state.theta[0], 7.75f);  // momentum 1 + 2; 9.5 - 0.5 x (0.5 x 3 + 2)
  EXPECT_THAT(state.buffers, ElementsAre(ElementsAre(0), ElementsAre(3)));
  ASSERT_TRUE(state.Step(DelayedScalars(0, 0.5f), 2).ok());
  EXPECT_EQ(state.theta[0], 7.25f);
  ASSERT_TRUE(state.Step(DelayedScalars(1, 0.5f), 2).ok());
  EXPECT_EQ(state.theta[0], 5.875f);  // momentum 1.5 + 2; 7.25 - 0.5 x (0.5 x 3.5 + 1)
  EXPECT_THAT(state.buffers, ElementsAre(ElementsAre(0), ElementsAre(3.5f)));
}

TEST(DelayedNesterov, IsNesterovWhereEachEntryIsAWholePeriod) {
  // Broken: a run whose peers all come in one entry would train by another rule than before.
  OneValue delayed("delayed_nesterov");
  OneValue plain("nesterov");
  const OuterScalars scalars = plain.rule.Scalars({0.7f, 0.9f}).value();
  OuterScalars whole = delayed.rule.Scalars({0.7f, 0.9f}).value();
  for (const float mean : {0.3f, -1.7f, 0.01f, 2.5f}) {
    ASSERT_TRUE(delayed.Step(whole, mean).ok());
    ASSERT_TRUE(plain.Step(scalars, mean).ok());
    EXPECT_NEAR(delayed.theta[0], plain.theta[0], 2e-6f);
    EXPECT_EQ(delayed.buffers[1], plain.buffers[0]);
  }
}

TEST(DelayedNesterov, UpdatesOfOneEntryMoveAsFarAsInEntriesOfTheirOwn) {
  // Broken: whoever comes within the grace would be counted as one update, and a run of quick peers
  // would learn as slowly as one peer.
  OneValue alone("delayed_nesterov");
  OneValue together("delayed_nesterov");
  for (const float update : {1.0f, 2.0f, 6.0f}) {
    ASSERT_TRUE(alone.Step(DelayedScalars(0, 0.125f), update).ok());
  }
  ASSERT_TRUE(together.Step(DelayedScalars(0, 0.375f), 3).ok());  // their mean
  EXPECT_EQ(alone.theta, together.theta);
  EXPECT_EQ(alone.buffers, together.buffers);
}

TEST(DelayedNesterov, TakesTheMomentumOfNUpdatesWhereAnEntryHasMoreThanItLacks) {
  // Broken: the momentum would be pushed by up to twice as much as is meant, and theta move in
  // bursts. N = 4, updates 4, 4, 8, 8, 8: the last one begins the next sum.
  OneValue alone("delayed_nesterov");
  OneValue together("delayed_nesterov");
  for (const float due : {0.0f, 0.0f}) {
    ASSERT_TRUE(alone.Step(DelayedScalars(due, 0.25f), 4).ok());
    ASSERT_TRUE(together.Step(DelayedScalars(due, 0.25f), 4).ok());
  }
  ASSERT_TRUE(alone.Step(DelayedScalars(0, 0.25f), 8).ok());
  ASSERT_TRUE(alone.Step(DelayedScalars(1, 0.25f), 8).ok());
  ASSERT_TRUE(alone.Step(DelayedScalars(0, 0.25f), 8).ok());
  ASSERT_TRUE(together.Step(DelayedScalars(1, 0.75f, 0.25f), 8).ok());
  EXPECT_EQ(together.theta[0], 4.5f);  // 9 - 0.5 x (0.5 x (2 + 6 - 2) + 6)
  EXPECT_THAT(together.buffers, ElementsAre(ElementsAre(2), ElementsAre(6)));
  EXPECT_EQ(alone.theta, together.theta);
  EXPECT_EQ(alone.buffers, together.buffers);
}

TEST(LateRules, NameTheirBuffersAndScalars) {
  // Broken: snapshots and headers would carry other names than the replay looks for.
  const OuterSettings settings = {0.7f, 0.9f, 0.99f, 1e-3f};
  const OuterRule& delayed = **FindOuterRule("delayed_nesterov");
  EXPECT_THAT(delayed.buffers(), ElementsAre("delta_sum", "momentum"));
  EXPECT_EQ(
      delayed.Scalars(settings).value(),
      (OuterScalars{
          {"due", 1}, {"learning_rate", 0.7f}, {"momentum", 0.9f}, {"rest", 0}, {"share", 1}}));
  const OuterRule& cgad = **FindOuterRule("cgad");
  EXPECT_THAT(cgad.buffers(), ElementsAre("first_moment", "second_moment"));
  EXPECT_EQ(cgad.Scalars(settings).value(), (OuterScalars{{"adaptivity", 1e-3f},
                                                          {"beta2", 0.99f},
                                                          {"discount", 1},
                                                          {"learning_rate", 0.7f},
                                                          {"momentum", 0.9f}}));
  EXPECT_TRUE(IsAdaptive("cgad") && !IsAdaptive("delayed_nesterov"));
  EXPECT_TRUE(HasMomentum("delayed_nesterov") && !HasMomentum("cgad"));
}

TEST(LateRules, RefuseScalarsThatMakeNoSenseAndChangeNothing) {
  // Broken: a header that nobody honest writes would move a replica, or bring one down.
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  for (const std::string& name : OuterRuleNames()) {
    OneValue state(name);
    const OuterScalars right = state.rule.Scalars({0.7f, 0.0f, 0.9f, 0.1f}).value();
    std::vector<std::pair<std::string, float>> bad;
    for (const float gap : {0.5f, nan, infinity}) bad.emplace_back("gap", gap);
    if (right.count("due") > 0) bad.insert(bad.end(), {{"due", 0.5f}, {"due", nan}});
    if (right.count("share") > 0) bad.insert(bad.end(), {{"share", 1.5f}, {"share", nan}});
    if (right.count("rest") > 0) bad.insert(bad.end(), {{"rest", -0.5f}, {"rest", nan}});
    if (right.count("discount") > 0) bad.insert(bad.end(), {{"discount", -1}, {"discount", nan}});
    for (const float clip : {0.0f, -1.0f, nan}) {
      if (HasMomentum(name)) bad.emplace_back("momentum_clip", clip);
    }
    for (const auto& [scalar, value] : bad) {
      OuterScalars wrong = right;
      wrong[scalar] = value;
      EXPECT_FALSE(state.Step(wrong, 1).ok()) << name << ": " << scalar << " " << value;
    }
    OuterScalars lacking = right;
    lacking["gap"] = 2;
    lacking.erase("learning_rate");
    EXPECT_FALSE(state.Step(lacking, 1).ok()) << name;
    EXPECT_EQ(state.theta[0], 10) << name;
    for (const std::vector<float>& buffer : state.buffers) EXPECT_EQ(buffer[0], 0) << name;
  }
}

TEST(Corrections, HoldTheMomentumBeforeThetaMoves) {
  // Broken: what the clip is to keep from theta would have moved it already (as where the clamped
  // value is thrown away).
  const float away = 100;
  for (const float mean : {4.0f, -4.0f}) {
    const float sign = mean > 0 ? 1.0f : -1.0f;
    const OuterScalars scalars = {
        {"learning_rate", 0.5f}, {"momentum", 0.5f}, {"momentum_clip", 2}};
    OneValue nesterov("nesterov");
    ASSERT_TRUE(nesterov.Step(scalars, mean).ok());
    EXPECT_EQ(nesterov.buffers[0][0], sign * 2);
    EXPECT_EQ(nesterov.theta[0], 10 - sign * 2.5f);  // 0.5 x (4 + 0.5 x 2)
    OneValue momentum("momentum");
    ASSERT_TRUE(momentum.Step(scalars, mean).ok());
    EXPECT_EQ(momentum.theta[0], 10 - sign);
    OneValue delayed("delayed_nesterov");
    OuterScalars due = DelayedScalars(1, 0.5f);
    due["momentum_clip"] = 2;
    delayed.buffers[0][0] = sign * away;
    ASSERT_TRUE(delayed.Step(due, mean).ok());
    EXPECT_EQ(delayed.buffers[1][0], sign * 2);
    EXPECT_EQ(delayed.theta[0], 10 - sign * 1.5f);  // 0.5 x (0.5 x 2 + 2)
  }
}

TEST(Corrections, DivideTheMeanByTheGapForEveryRule) {
  // Broken: the penalty would be another one for each rule, or depend on how a range is cut.
  for (const std::string& name : OuterRuleNames()) {
    const OuterRule& rule = **FindOuterRule(name);
    for (const size_t elements : {0, 1, 4095, 4096, 4097, 9000}) {
      const std::vector<float> mean = BellValues(elements, 1);
      std::vector<float> divided = mean;
      for (float& value : divided) value = value / 1.7f;
      OuterScalars scalars = rule.Scalars({0.7f, 0.0f, 0.9f, 0.1f}).value();
      std::vector<float> theta = BellValues(elements, 2);
      std::vector<float> expected = theta;
      std::vector<std::vector<float>> values(2 * rule.buffers().size(),
                                             std::vector<float>(elements));
      std::vector<absl::Span<float>> spans, expected_spans;
      for (size_t i = 0; i < rule.buffers().size(); ++i) {
        spans.push_back(absl::MakeSpan(values[2 * i]));
        expected_spans.push_back(absl::MakeSpan(values[2 * i + 1]));
      }
      ASSERT_TRUE(rule.Step(scalars, divided, absl::MakeSpan(expected), expected_spans).ok());
      scalars["gap"] = 1.7f;
      ASSERT_TRUE(rule.Step(scalars, mean, absl::MakeSpan(theta), spans).ok());
      EXPECT_TRUE(SameBits(theta, expected)) << name << elements;
      for (size_t i = 0; i < rule.buffers().size(); ++i) {
        EXPECT_TRUE(SameBits(values[2 * i], values[2 * i + 1])) << name << elements;
      }
    }
  }
}

TEST(Cgad, IsAdamWhoseMeanHasLostWithItsAge) {
  // Broken: the discount would reach one moment and not the other, where it cancels out of a step.
  const OuterRule& cgad = **FindOuterRule("cgad");
  const OuterRule& adam = **FindOuterRule("adam");
  OuterScalars scalars = cgad.Scalars({0.01f, 0.9f, 0.99f, 1e-3f}).value();
  scalars["discount"] = 0.3f;
  for (const std::string& target : SimdTargetNames()) {
    const ScopedSimdTarget pinned(target);
    for (const size_t elements : {1, 7, 16, 33, 1000}) {
      const std::vector<float> mean = BellValues(elements, 1);
      std::vector<float> discounted = mean;
      for (float& value : discounted) value = 0.3f * value;
      std::vector<float> theta = BellValues(elements, 2), expected = theta;
      std::vector<float> first(elements), second(elements), wanted_first(elements),
          wanted_second(elements);
      ASSERT_TRUE(cgad.Step(scalars, mean, absl::MakeSpan(theta),
                            {absl::MakeSpan(first), absl::MakeSpan(second)})
                      .ok());
      ASSERT_TRUE(adam.Step(scalars, discounted, absl::MakeSpan(expected),
                            {absl::MakeSpan(wanted_first), absl::MakeSpan(wanted_second)})
                      .ok());
      EXPECT_TRUE(SameBits(theta, expected)) << target << elements;
      EXPECT_TRUE(SameBits(first, wanted_first)) << target << elements;
      EXPECT_TRUE(SameBits(second, wanted_second)) << target << elements;
    }
  }
}

// One value by the formulas, each operation rounded to fp32 on its own.
void PlainDelayed(const OuterScalars& by, float mean, float* theta, float* sum, float* buffer) {
  const volatile float part = by.at("share") * mean;
  const volatile float over = by.at("rest") * mean;
  const volatile float left = 0 + over;
  const volatile float taken = part - left;
  const volatile float all = *sum + (by.at("due") != 0 ? taken : part);
  *sum = all;
  volatile float direction = part;
  if (by.at("due") != 0) {
    const volatile float kept = by.at("momentum") * *buffer;
    const volatile float moved = kept + all;
    const float most =
        by.count("momentum_clip") > 0 ? by.at("momentum_clip") : std::numeric_limits<float>::max();
    *buffer = std::max(-most, std::min(most, static_cast<float>(moved)));
    const volatile float ahead = by.at("momentum") * *buffer;
    direction = ahead + part;
    *sum = left;
  }
  const volatile float change = by.at("learning_rate") * direction;
  *theta = *theta - change;
}

TEST(DelayedNesterov, GivesThePlainLoopsBitsOnEveryTarget) {
  // Broken: replicas on different CPUs would drift apart.
  const OuterRule& rule = **FindOuterRule("delayed_nesterov");
  for (const std::string& target : SimdTargetNames()) {
    const ScopedSimdTarget pinned(target);
    for (const auto& [due, rest] :
         std::vector<std::pair<float, float>>{{0.0f, 0.0f}, {1.0f, 0.0f}, {1.0f, 0.1f}}) {
      for (const float clip : {0.0f, 0.5f}) {
        OuterScalars scalars = {{"due", due},
                                {"learning_rate", 0.7f},
                                {"momentum", 0.9f},
                                {"rest", rest},
                                {"share", 0.3f}};
        if (clip > 0) scalars["momentum_clip"] = clip;
        for (const size_t elements : {0, 1, 2, 7, 15, 16, 17, 33, 1000, 4099}) {
          // One float off: a range begins anywhere in the state.
          const std::vector<float> mean = BellValues(elements + 1, 1);
          std::vector<float> theta = BellValues(elements + 1, 2);
          std::vector<float> sum = BellValues(elements + 1, 3);
          std::vector<float> buffer = BellValues(elements + 1, 4);
          std::vector<float> expected_theta = theta, expected_sum = sum, expected_buffer = buffer;
          for (size_t i = 1; i <= elements; ++i) {
            PlainDelayed(scalars, mean[i], &expected_theta[i], &expected_sum[i],
                         &expected_buffer[i]);
          }
          ASSERT_TRUE(rule.Step(scalars, absl::MakeSpan(mean).subspan(1),
                                absl::MakeSpan(theta).subspan(1),
                                {absl::MakeSpan(sum).subspan(1), absl::MakeSpan(buffer).subspan(1)})
                          .ok());
          EXPECT_TRUE(SameBits(theta, expected_theta)) << target << elements;
          EXPECT_TRUE(SameBits(sum, expected_sum)) << target << elements;
          EXPECT_TRUE(SameBits(buffer, expected_buffer)) << target << elements;
        }
      }
    }
  }
}

}  // namespace
}  // namespace atolld
