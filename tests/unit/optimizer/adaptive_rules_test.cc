// The outer rules of federated averaging: FedAvgM, FedAdagrad, FedAdam and FedYogi.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "compression/simd.h"
#include "optimizer/outer_rule.h"
#include "tests/unit/compression/test_values.h"

namespace atolld {
namespace {

using ::testing::ElementsAre;
using Values = std::vector<float>;

const Values kFirstState = {-0.146795094f, 0.786141276f, 0.94682163f, 0.00100000005f};
// Large and small ones, one of 0, and one far above those before it.
const Values kMeans[] = {{-0.355625033f, 1.23238575f, 0.000138172656f, 0.0f},
                         {0.01373241f, 0.024054613f, 0.139545083f, 1e-3f},
                         {0.0245054122f, -2.5f, 0.0177915506f, -0.00917930715f}};

struct Known {
  std::string rule;
  OuterSettings settings;
  Values theta;
  std::vector<Values> buffers;  // in the order of the rule's
};

// By a Python script in fp64 that follows the papers' formulas with v from tau^2 on.
std::vector<Known> KnownStates() {
  const Values first = {-0.0251191696f, -0.148011839f, 0.0143494045f, -0.000827930715f};
  return {{"momentum",
           {0.5f, 0.9f},
           {0.30977833f, 0.343406702f, 0.805170802f, 0.00463965363f},
           {{-0.251191696f, -1.48011839f, 0.143494045f, -0.00827930715f}}},
          {"adagrad",
           {0.1f, 0.0f, 0.0f, 1e-3f},
           {-0.0577738508f, 0.773931028f, 0.828102046f, 0.048805472f},
           {{0.0245054122f, -2.5f, 0.0177915506f, -0.00917930715f},
            {0.127258258f, 7.76935326f, 0.0197893886f, 8.52596798e-05f}}},
          {"adagrad",
           {0.1f, 0.5f, 0.0f, 0.1f},
           {-0.0853337687f, 0.753809996f, 0.905024683f, 0.00291522773f},
           {{-0.0287673205f, -1.08993813f, 0.0437993176f, -0.00433965357f},
            {0.127258258f, 7.76935326f, 0.0197893886f, 8.52596798e-05f}}},
          {"adam",
           {0.01f, 0.9f, 0.99f, 1e-3f},
           {-0.121748605f, 0.772358765f, 0.927889155f, 0.00402170158f},
           {first, {0.00124736666f, 0.0773912089f, 0.000195916898f, 8.22795798e-07f}}},
          {"yogi",
           {0.01f, 0.9f, 0.99f, 1e-3f},
           {-0.121802744f, 0.772390981f, 0.927934157f, 0.00401201621f},
           {first, {0.0012568007f, 0.0776819601f, 0.000197893504f, 8.42596798e-07f}}}};
}

TEST(AdaptiveRules, FollowTheirPapers) {
  // Broken: what is called FedAdam would be another rule than the one that was published.
  for (const Known& known : KnownStates()) {
    const OuterRule& rule = **FindOuterRule(known.rule);
    const OuterScalars scalars = rule.Scalars(known.settings).value();
    Values theta = kFirstState;
    std::vector<Values> buffers(rule.buffers().size(), Values(theta.size()));
    std::vector<absl::Span<float>> spans;
    for (Values& buffer : buffers) spans.push_back(absl::MakeSpan(buffer));
    for (const Values& mean : kMeans)
      ASSERT_TRUE(rule.Step(scalars, mean, absl::MakeSpan(theta), spans).ok()) << known.rule;
    ASSERT_EQ(buffers.size(), known.buffers.size());
    for (size_t i = 0; i < theta.size(); ++i) {
      EXPECT_NEAR(theta[i], known.theta[i], 1e-6) << known.rule << " " << i;
      for (size_t b = 0; b < buffers.size(); ++b) {
        EXPECT_NEAR(buffers[b][i], known.buffers[b][i],
                    2e-6 * std::fabs(known.buffers[b][i]))  // 0.99 is no fp32 number
            << known.rule << " " << i;
      }
    }
  }
}

// One value's step in plain C++, an operation a line, each rounded.
void PlainStep(const std::string& rule, const OuterSettings& set, float mean, float* theta,
               float* first, float* second) {
  const volatile float tau_squared = set.adaptivity * set.adaptivity;
  const volatile float square = mean * mean;
  const volatile float kept = set.momentum * *first;
  if (rule == "momentum") {
    *first = kept + mean;
    const volatile float change = set.learning_rate * *first;
    *theta = *theta - change;
    return;
  }
  const volatile float taken = (1.0f - set.momentum) * mean;
  *first = kept + taken;
  const volatile float share = 1.0f - set.beta2;
  const volatile float v = *second + tau_squared;
  const volatile float change = share * square;
  if (rule == "adagrad") *second = *second + square;
  if (rule == "yogi" && v < square) *second = *second + change;
  if (rule == "yogi" && v > square) *second = *second - change;
  if (rule == "adam") {
    const volatile float above = square - tau_squared;
    const volatile float added = share * above;
    const volatile float decayed = set.beta2 * *second;
    *second = decayed + added;
  }
  const volatile float now = *second + tau_squared;
  const volatile float root = std::sqrt(now > 0 ? now : 0.0f);
  const volatile float below = root + set.adaptivity;
  const volatile float above = set.learning_rate * *first;
  const volatile float step = above / below;
  *theta = *theta - step;
}

TEST(AdaptiveRules, GiveThePlainLoopsBitsOnEveryTarget) {
  // Broken: replicas on different CPUs would drift apart.
  const OuterSettings settings = {0.7f, 0.9f, 0.99f, 1e-3f};
  for (const std::string& target : SimdTargetNames()) {
    const ScopedSimdTarget pinned(target);
    for (const std::string name : {"momentum", "adagrad", "adam", "yogi"}) {
      const OuterRule& rule = **FindOuterRule(name);
      for (const size_t elements : {0, 1, 2, 7, 15, 16, 17, 33, 1000, 4099}) {
        // One float off: a range begins anywhere in the state.
        const Values mean = BellValues(elements + 1, 1);
        Values theta = BellValues(elements + 1, 2);
        Values first = BellValues(elements + 1, 3);
        Values second = BellValues(elements + 1, 4);
        // A second moment is never negative by more than tau squared.
        for (float& value : second) value = std::fabs(value) - 1e-6f;
        Values expected_theta = theta, expected_first = first, expected_second = second;
        for (size_t i = 1; i <= elements; ++i) {
          PlainStep(name, settings, mean[i], &expected_theta[i], &expected_first[i],
                    &expected_second[i]);
        }
        std::vector<absl::Span<float>> buffers = {absl::MakeSpan(first).subspan(1),
                                                  absl::MakeSpan(second).subspan(1)};
        buffers.resize(rule.buffers().size());
        ASSERT_TRUE(rule.Step(rule.Scalars(settings).value(), absl::MakeSpan(mean).subspan(1),
                              absl::MakeSpan(theta).subspan(1), buffers)
                        .ok());
        EXPECT_TRUE(SameBits(theta, expected_theta)) << target << " " << name << elements;
        EXPECT_TRUE(SameBits(first, expected_first)) << target << " " << name << elements;
        EXPECT_TRUE(SameBits(second, expected_second)) << target << " " << name << elements;
      }
    }
  }
}

TEST(AdaptiveRules, AMeanWithoutBoundsLeavesItsParameterWhereItIs) {
  // Broken: one overflow of a square would put a NaN, whose bits differ by CPU, into every replica.
  const float huge = std::numeric_limits<float>::max();
  for (const std::string name : {"adagrad", "adam", "yogi"}) {
    const OuterRule& rule = **FindOuterRule(name);
    const OuterScalars scalars = rule.Scalars({0.01f, 0.9f, 0.99f, 1e-3f}).value();
    Values theta = {1, 1}, first(2), second(2);
    const absl::Span<float> buffers[] = {absl::MakeSpan(first), absl::MakeSpan(second)};
    for (int round = 0; round < 3; ++round) {
      ASSERT_TRUE(rule.Step(scalars, Values{huge, 0}, absl::MakeSpan(theta), buffers).ok());
      EXPECT_THAT(theta, ElementsAre(1, 1)) << name;
      EXPECT_TRUE(AllFinite(first.data(), first.size())) << name;
    }
  }
}

TEST(AdaptiveRules, NameTheirBuffersAndScalars) {
  // Broken: snapshots and headers would carry other names than the replay looks for.
  const OuterSettings settings = {0.7f, 0.9f, 0.99f, 1e-3f};
  for (const std::string name : {"adagrad", "adam", "yogi"}) {
    const OuterRule& rule = **FindOuterRule(name);
    EXPECT_THAT(rule.buffers(), ElementsAre("first_moment", "second_moment"));
    OuterScalars scalars = {{"learning_rate", 0.7f}, {"momentum", 0.9f}, {"adaptivity", 1e-3f}};
    if (name != "adagrad") scalars["beta2"] = 0.99f;
    EXPECT_EQ(rule.Scalars(settings).value(), scalars) << name;
    EXPECT_FALSE(rule.Scalars({0.7f, 0.9f, 0.99f, 0.0f}).ok()) << name;
    EXPECT_EQ(rule.Scalars({0.7f, 0.9f, 1.0f, 1e-3f}).ok(), name == "adagrad") << name;
    EXPECT_FALSE(rule.Scalars({0.7f, 1.0f, 0.99f, 1e-3f}).ok()) << name;
  }
  const OuterRule& momentum = **FindOuterRule("momentum");
  EXPECT_THAT(momentum.buffers(), ElementsAre("momentum"));
  EXPECT_EQ(momentum.Scalars(settings).value(),
            (OuterScalars{{"learning_rate", 0.7f}, {"momentum", 0.9f}}));
}

}  // namespace
}  // namespace atolld
