#include "worker/model/layers.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "worker/kernels/torch_version.h"

namespace atolld {
namespace {

struct Outcome {
  at::Tensor loss, weight_gradient, input_gradient;
  int calls = 0;
};

// A part with dropout between other operations, with or without checkpointing.
Outcome Train(bool checkpointed, bool bf16) {
  torch::manual_seed(5);
  const at::Tensor weight = torch::randn({8, 8}).requires_grad_(true);
  const at::Tensor input = torch::randn({4, 8}).requires_grad_(true);
  Outcome outcome;
  int* const calls = &outcome.calls;
  const auto part = [weight, calls](const at::Tensor& x) {
    ++*calls;
    return at::dropout(at::gelu(at::mm(x, weight)), 0.5, /*train=*/true).to(at::kFloat);
  };
  at::Tensor y;
  {
    const Autocast autocast(at::kCPU, bf16);
    y = input * 2;
    for (int i = 0; i < 3; ++i) y = checkpointed ? Checkpointed(part, y) : part(y);
  }
  outcome.loss = (y * y).sum();
  outcome.loss.backward();
  outcome.weight_gradient = weight.grad();
  outcome.input_gradient = input.grad();
  return outcome;
}

// Broken: a run with checkpointing would train otherwise than one without: other dropout masks in
// the second pass, other precision, or a gradient that does not flow on.
TEST(CheckpointTest, GradientsAreThoseOfThePartItself) {
  for (const bool bf16 : {false, true}) {
    const Outcome plain = Train(false, bf16), again = Train(true, bf16);
    EXPECT_TRUE(at::equal(plain.loss, again.loss));
    // In bf16 the three uses of a weight are summed before they are widened, or after.
    const double limit = bf16 ? 1e-2 : 1e-6;
    const auto off = [](const at::Tensor& a, const at::Tensor& b) {
      return ((a - b).abs().max() / a.abs().max()).item<double>();
    };
    EXPECT_LT(off(plain.weight_gradient, again.weight_gradient), limit) << bf16;
    EXPECT_LT(off(plain.input_gradient, again.input_gradient), limit) << bf16;
    EXPECT_GT(plain.input_gradient.abs().max().item<float>(), 0);
  }
}

// Broken: activations would be kept after all, and checkpointing cost time for nothing.
TEST(CheckpointTest, ThePartIsComputedAgain) {
  EXPECT_EQ(Train(false, false).calls, 3);
  EXPECT_EQ(Train(true, false).calls, 6);
}

// Broken: the numbers drawn after a backward pass would repeat those of a part's first pass.
TEST(CheckpointTest, TheBackwardPassLeavesTheGeneratorAlone) {
  Train(false, false);
  const at::Tensor plain = torch::rand({4});
  Train(true, false);
  EXPECT_TRUE(at::equal(torch::rand({4}), plain));
}

// Broken: evaluation would pay for graphs that nobody needs.
TEST(CheckpointTest, WithoutGradientsItIsJustThePart) {
  const at::NoGradGuard no_grad;
  const at::Tensor y = Checkpointed([](const at::Tensor& x) { return x * 2; }, torch::ones({2}));
  EXPECT_FALSE(y.requires_grad());
  EXPECT_EQ(y[0].item<float>(), 2);
}

}  // namespace
}  // namespace atolld
