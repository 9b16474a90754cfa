#include "optimizer/outer_rule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "compression/simd.h"
#include "tests/unit/compression/test_values.h"

namespace atolld {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Vector = std::vector<float>;

absl::Status Step(absl::string_view rule, const OuterScalars& scalars, absl::Span<const float> mean,
                  Vector& theta, std::vector<absl::Span<float>> buffers) {
  return (*FindOuterRule(rule))->Step(scalars, mean, absl::MakeSpan(theta), buffers);
}

struct TorchStep {
  Vector gradient, buffer, theta;
};

// torch.optim.SGD([p], lr=0.7, momentum=0.9, nesterov=True) of PyTorch 1.13.1 on a CPU, four steps
// from kTorchStart.
const Vector kTorchStart = {-0.146795094f, 0.786141276f, 0.94682163f,
                            -1.114344f,    1.69079018f,  0.00100000005f};
const TorchStep kTorchSteps[] = {
    {{-0.355625033f, 1.23238575f, 0.138172656f, -1.68219852f, 0.317678303f, 0.132806972f},
     {-0.355625033f, 1.23238575f, 0.138172656f, -1.68219852f, 0.317678303f, 0.132806972f},
     {0.32618618f, -0.852931738f, 0.763051987f, 1.12298f, 1.268278f, -0.175633281f}},
    {{0.01373241f, 0.024054613f, 0.139545083f, 0.134702265f, 0.243820816f, 0.0202758294f},
     {-0.306330115f, 1.13320184f, 0.263900459f, -1.37927628f, 0.529731274f, 0.139802098f},
     {0.509561479f, -1.58368707f, 0.499113142f, 1.89763236f, 0.763872743f, -0.277901679f}},
    {{0.0245054122f, 0.0202560183f, 0.0177915506f, -0.00917930715f, -0.00457818899f,
      -0.0072447327f},
     {-0.251191676f, 1.04013765f, 0.255301952f, -1.25052798f, 0.472179919f, 0.118577152f},
     {0.650658429f, -2.25315309f, 0.325818837f, 2.69189048f, 0.469604135f, -0.347533971f}},
    {{0.0012798782f, -0.000994066242f, 0.00181497284f, -0.000602848304f, 0.00161481486f,
      0.00193019828f},
     {-0.224792629f, 0.935129762f, 0.231586725f, -1.12607801f, 0.426576734f, 0.108649634f},
     {0.791381896f, -2.84158897f, 0.178648725f, 3.4017415f, 0.199730426f, -0.417334378f}}};

TEST(NesterovRule, FollowsPyTorch) {
  // Broken: the outer optimiser would not be the one that DiLoCo's results were obtained with.
  // PyTorch fuses multiply and add where the CPU can, so the last bits may differ from ours.
  const OuterRule& rule = **FindOuterRule("nesterov");
  const OuterScalars scalars = rule.Scalars({0.7f, 0.9f}).value();
  Vector theta = kTorchStart;
  Vector buffer(theta.size());
  for (const TorchStep& step : kTorchSteps) {
    ASSERT_TRUE(Step("nesterov", scalars, step.gradient, theta, {absl::MakeSpan(buffer)}).ok());
    for (size_t i = 0; i < theta.size(); ++i) {
      EXPECT_NEAR(buffer[i], step.buffer[i], 2e-7f * (1 + std::fabs(step.buffer[i])));
      EXPECT_NEAR(theta[i], step.theta[i], 4e-7f * (1 + std::fabs(step.theta[i])));
    }
  }
}

TEST(NesterovRule, GivesThePlainLoopsBitsOnEveryTarget) {
  // Broken: replicas on different CPUs would drift apart.
  const OuterScalars scalars = (*FindOuterRule("nesterov"))->Scalars({0.7f, 0.9f}).value();
  for (const std::string& target : SimdTargetNames()) {
    const ScopedSimdTarget pinned(target);
    for (const size_t elements : {0, 1, 2, 7, 15, 16, 17, 33, 1000, 4099}) {
      // One float off: a range begins anywhere in the state.
      const Vector mean = BellValues(elements + 1, 1);
      Vector theta = BellValues(elements + 1, 2);
      Vector buffer = BellValues(elements + 1, 3);
      Vector expected_theta = theta, expected_buffer = buffer;
      for (size_t i = 1; i <= elements; ++i) {
        const volatile float kept = 0.9f * buffer[i];
        expected_buffer[i] = kept + mean[i];
        const volatile float ahead = 0.9f * expected_buffer[i];
        const volatile float direction = mean[i] + ahead;
        const volatile float change = 0.7f * direction;
        expected_theta[i] = theta[i] - change;
      }
      const absl::Span<float> buffers[] = {absl::MakeSpan(buffer).subspan(1)};
      ASSERT_TRUE((*FindOuterRule("nesterov"))
                      ->Step(scalars, absl::MakeSpan(mean).subspan(1),
                             absl::MakeSpan(theta).subspan(1), buffers)
                      .ok());
      EXPECT_TRUE(SameBits(theta, expected_theta)) << target << " " << elements;
      EXPECT_TRUE(SameBits(buffer, expected_buffer)) << target << " " << elements;
    }
  }
}

TEST(AverageRule, GivesThePlainLoopsBitsOnEveryTarget) {
  // Broken: replicas on different CPUs would drift apart.
  const OuterScalars scalars = (*FindOuterRule("average"))->Scalars({0.3f, 0.9f}).value();
  for (const std::string& target : SimdTargetNames()) {
    const ScopedSimdTarget pinned(target);
    for (const size_t elements : {0, 1, 5, 16, 31, 1003}) {
      const Vector mean = BellValues(elements, 1);
      Vector theta = BellValues(elements, 2);
      Vector expected = theta;
      for (size_t i = 0; i < elements; ++i) {
        const volatile float change = 0.3f * mean[i];
        expected[i] = theta[i] - change;
      }
      ASSERT_TRUE(Step("average", scalars, mean, theta, {}).ok());
      EXPECT_TRUE(SameBits(theta, expected)) << target << " " << elements;
    }
  }
}

TEST(AverageRule, WithALearningRateOfOneGivesThePeersAverage) {
  // Broken: local SGD and FedAvg would not be what the name says.
  const OuterScalars scalars = (*FindOuterRule("average"))->Scalars({1.0f, 0.0f}).value();
  Vector theta = {4, 8};
  ASSERT_TRUE(Step("average", scalars, {1.0f, -2.0f}, theta, {}).ok());
  EXPECT_THAT(theta, ElementsAre(3, 10));
}

TEST(OuterRules, NameTheirBuffersAndScalars) {
  // Broken: snapshots and headers would carry other names than the replay looks for.
  const OuterRule& nesterov = **FindOuterRule("nesterov");
  EXPECT_THAT(nesterov.buffers(), ElementsAre("momentum"));
  EXPECT_EQ(nesterov.Scalars({0.7f, 0.9f}).value(),
            (OuterScalars{{"learning_rate", 0.7f}, {"momentum", 0.9f}}));
  const OuterRule& average = **FindOuterRule("average");
  EXPECT_TRUE(average.buffers().empty());
  EXPECT_EQ(average.Scalars({0.7f, 0.9f}).value(), (OuterScalars{{"learning_rate", 0.7f}}));
}

TEST(OuterRules, RefuseScalarsThatMakeNoSense) {
  // Broken: a config with a negative rate, or a rogue header with a NaN, would ruin every replica.
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  for (const std::string& name : OuterRuleNames()) {
    const OuterRule& rule = **FindOuterRule(name);
    for (const float rate : {0.0f, -0.7f, nan, infinity}) {
      EXPECT_EQ(rule.Scalars({rate, 0.9f, 0.99f, 1e-3f}).status().code(),
                absl::StatusCode::kInvalidArgument)
          << name << rate;
    }
  }
  const OuterRule& nesterov = **FindOuterRule("nesterov");
  for (const float momentum : {-0.1f, 1.0f, nan, infinity})
    EXPECT_FALSE(nesterov.Scalars({0.7f, momentum}).ok());
  EXPECT_TRUE(nesterov.Scalars({0.7f, 0.0f}).ok());
}

TEST(OuterRules, ChangeNothingWhenTheyRefuse) {
  // Broken: an entry that is refused would be half applied.
  const OuterScalars scalars = {{"learning_rate", 0.7f}, {"momentum", 0.9f}};
  const Vector mean(4, 1.0f);
  Vector theta(4, 1.0f), buffer(4, 1.0f), small(3, 1.0f);
  const auto all = absl::MakeSpan(buffer);
  EXPECT_THAT(Step("nesterov", {{"learning_rate", 0.7f}}, mean, theta, {all}).message(),
              HasSubstr("\"momentum\""));
  EXPECT_THAT(Step("average", {}, mean, theta, {}).message(), HasSubstr("\"learning_rate\""));
  EXPECT_FALSE(
      Step("nesterov", {{"learning_rate", -1.0f}, {"momentum", 0.9f}}, mean, theta, {all}).ok());
  EXPECT_FALSE(
      Step("nesterov", {{"learning_rate", 0.7f}, {"momentum", std::nanf("")}}, mean, theta, {all})
          .ok());
  EXPECT_FALSE(Step("nesterov", scalars, mean, small, {all}).ok());
  EXPECT_FALSE(Step("nesterov", scalars, mean, theta, {absl::MakeSpan(small)}).ok());
  EXPECT_FALSE(Step("nesterov", scalars, mean, theta, {}).ok());
  EXPECT_FALSE(Step("nesterov", scalars, mean, theta, {all, all}).ok());
  EXPECT_FALSE(Step("average", scalars, mean, theta, {all}).ok());
  EXPECT_EQ(theta, Vector(4, 1.0f));
  EXPECT_EQ(buffer, Vector(4, 1.0f));
  EXPECT_EQ(small, Vector(3, 1.0f));
}

TEST(OuterRules, UnknownNamesGetTheNearest) {
  // Broken: a typing error in a config would not be explained.
  EXPECT_THAT(OuterRuleNames(), ElementsAre("adagrad", "adam", "average", "cgad",
                                            "delayed_nesterov", "momentum", "nesterov", "yogi"));
  EXPECT_EQ(
      FindOuterRule("nestrov").status().message(),
      "unknown outer rule \"nestrov\": did you mean \"nesterov\"? Known: adagrad, adam, average, "
      "cgad, delayed_nesterov, momentum, nesterov, yogi");
}

}  // namespace
}  // namespace atolld
