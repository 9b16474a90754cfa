#include "worker/training/gradient_terms.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "worker/training/inner_optimizer.h"

namespace atolld {
namespace {

v1::InnerSpec PlainSgd() {
  v1::InnerSpec inner;
  inner.set_optimizer("sgd");
  inner.set_batch(1);
  return inner;
}

at::Tensor Flat(const std::vector<float>& values) { return at::tensor(values); }

// Broken: FedProx would pull towards another place than the base, with another strength, or pull at
// personal tensors, which have none.
TEST(GradientTermsTest, TheProximalTermIsMuTimesTheWayFromTheBase) {
  v1::InnerSpec inner = PlainSgd();
  inner.set_proximal(0.5);
  GradientTerms terms(inner, 2, at::kCPU);
  const at::Tensor gradient = Flat({1, 2, 3});
  terms.SetBase(std::vector<float>{1, 1});
  terms.Add(Flat({3, 0, 7}), gradient);
  EXPECT_TRUE(at::equal(gradient, Flat({2, 1.5, 3}))) << gradient;  // 1 + (3-1)/2, 2 + (0-1)/2, 3
  terms.SetBase(std::vector<float>{3, 0});                          // a rebase
  terms.Add(Flat({3, 0, 7}), gradient);
  EXPECT_TRUE(at::equal(gradient, Flat({2, 1.5, 3})));
}

// Broken: where some tensors are frozen, FedProx would pull each of the others towards another
// one's base.
TEST(GradientTermsTest, TheProximalTermIsOfWhatIsTrained) {
  v1::Manifest manifest;
  for (const uint64_t offset : {0u, 2u, 3u}) {  // two values, one and two; the last is personal
    manifest.add_tensors()->add_shape(offset == 2 ? 1 : 2);
    manifest.mutable_tensors()->rbegin()->set_offset(offset);
  }
  manifest.set_elements(5);
  v1::InnerSpec inner = PlainSgd();
  inner.set_proximal(0.5);
  GradientTerms terms(inner, 3, at::kCPU);
  terms.Train(TrainedTensors(manifest, {false, true, true}));
  terms.SetBase(std::vector<float>{7, 8, 9});
  const at::Tensor gradient = Flat({1, 2, 3});
  terms.Add(Flat({1, 2, 11, 4, 5}), gradient);
  EXPECT_TRUE(at::equal(gradient, Flat({2, 2, 3}))) << gradient;  // 1 + (11 - 9) / 2
}

// Broken: the clip would cut off the correction, or count it.
TEST(GradientTermsTest, TheGradientIsClippedBeforeTheControlVariates) {
  v1::InnerSpec inner = PlainSgd();
  inner.set_control_variates(true);
  inner.set_gradient_clip(1);
  GradientTerms terms(inner, 2, at::kCPU);
  const at::Tensor gradient = Flat({3, 4});
  terms.SetControl(std::vector<float>{10, 10}, std::vector<float>{0, 5});
  terms.Add(Flat({0, 0}), gradient);
  EXPECT_NEAR(gradient[0].item<float>(), 10.6, 1e-5);
  EXPECT_NEAR(gradient[1].item<float>(), 5.8, 1e-5);
  EXPECT_EQ(ForOptimizer(inner).gradient_clip(), 0);
  EXPECT_FALSE(GradientTerms::Check([&] {
                 v1::InnerSpec other = inner;
                 other.set_optimizer("adamw");
                 return other;
               }())
                   .ok());
}

// Two parties with the losses 1/2 (x - 0)^2 and 3/2 (x - 1)^2, whose sum is least at 3/4. Of five
// steps at rate 0.2 the first keeps 0.8^5 = 0.32768 of its way to its optimum, the other 0.4^5 =
// 0.01024, so FedAvg stands still at 0.98976 / (0.67232 + 0.98976) = 0.59549.
double MeetingPoint(bool scaffold) {
  constexpr double kRate = 0.2;
  constexpr int kSteps = 5, kRounds = 200;
  const std::array<double, 2> curvature = {1, 3}, optimum = {0, 1};
  v1::InnerSpec inner = PlainSgd();
  inner.set_control_variates(scaffold);
  v1::Manifest manifest;
  manifest.set_elements(1);
  float x = 5;
  std::array<std::vector<float>, 2> own = {{{0}, {0}}};
  std::vector<float> common = {0};
  for (int round = 0; round < kRounds; ++round) {
    float moved = 0, learned = 0;
    for (size_t i = 0; i < 2; ++i) {
      const auto optimizer = *InnerOptimizer::Make(inner, manifest);
      GradientTerms terms(inner, 1, at::kCPU);
      terms.SetControl(common, own[i]);
      const at::Tensor y = Flat({x});
      for (int step = 0; step < kSteps; ++step) {
        const at::Tensor gradient = (y - optimum[i]) * curvature[i];
        terms.Add(y, gradient);
        optimizer->Step(kRate, y, gradient);
      }
      const std::vector<float> update = {x - y[0].item<float>()};
      const float before = own[i][0];
      UpdateControl(common, update, kSteps * kRate, absl::MakeSpan(own[i]));
      moved += update[0] / 2;
      learned += (own[i][0] - before) / 2;
    }
    x -= moved;
    common[0] += learned;
  }
  return static_cast<double>(x);
}

// Broken: parties with different data would drift to a place that is nobody's optimum, which
// SCAFFOLD is there to prevent.
TEST(GradientTermsTest, ScaffoldMeetsAtTheCommonOptimumAndFedAvgDoesNot) {
  EXPECT_NEAR(MeetingPoint(false), 0.59549, 1e-4);
  EXPECT_NEAR(MeetingPoint(true), 0.75, 1e-4);
}

}  // namespace
}  // namespace atolld
