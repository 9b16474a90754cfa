#include "worker/training/inner_optimizer.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/unit/worker/training/fixtures.h"
#include "worker/base/manifest.h"
#include "worker/training/adamw.h"

namespace atolld {
namespace {

absl::Span<float> Values(const at::Tensor& tensor) {
  return absl::MakeSpan(tensor.data_ptr<float>(), static_cast<size_t>(tensor.numel()));
}

class InnerOptimizerTest : public ::testing::Test {
 protected:
  InnerOptimizerTest() : manifest_(*MakeManifest(TinySpec().model())) {
    inner_ = TinySpec().inner();
    inner_.set_gradient_clip(0);
    torch::manual_seed(3);
    flat_ = torch::randn({static_cast<int64_t>(manifest_.elements())});
  }

  std::unique_ptr<InnerOptimizer> Make() {
    auto made = InnerOptimizer::Make(inner_, manifest_);
    EXPECT_TRUE(made.ok()) << made.status();
    return *std::move(made);
  }

  const v1::Manifest manifest_;
  v1::InnerSpec inner_;
  at::Tensor flat_;
};

// Broken: AdamW would not be the one that the published losses were reached with.
TEST_F(InnerOptimizerTest, AdamWAgreesWithTorchs) {
  std::vector<torch::Tensor> decayed, plain;
  for (const v1::Tensor& tensor : manifest_.tensors()) {
    torch::Tensor copy = flat_
                             .narrow(0, static_cast<int64_t>(tensor.offset()),
                                     static_cast<int64_t>(TensorElements(tensor)))
                             .clone()
                             .requires_grad_(true);
    (tensor.shape_size() >= 2 ? decayed : plain).push_back(copy);
  }
  auto options = std::make_unique<torch::optim::AdamWOptions>(1e-3);
  options->weight_decay(0.0).betas({0.9, 0.99});
  auto decay_options = std::make_unique<torch::optim::AdamWOptions>(1e-3);
  decay_options->weight_decay(0.1).betas({0.9, 0.99});
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(decayed, std::move(decay_options));
  groups.emplace_back(plain, std::move(options));
  torch::optim::AdamW reference(groups);
  const auto optimizer = Make();

  for (int step = 0; step < 20; ++step) {
    const double rate = 1e-3 * (step + 1);
    const at::Tensor gradient = torch::randn_like(flat_) * std::pow(10.0, step % 5 - 3);
    size_t next_decayed = 0, next_plain = 0;
    for (const v1::Tensor& tensor : manifest_.tensors()) {
      torch::Tensor& copy =
          tensor.shape_size() >= 2 ? decayed[next_decayed++] : plain[next_plain++];
      copy.mutable_grad() = gradient
                                .narrow(0, static_cast<int64_t>(tensor.offset()),
                                        static_cast<int64_t>(TensorElements(tensor)))
                                .clone();
    }
    for (auto& group : reference.param_groups()) {
      static_cast<torch::optim::AdamWOptions&>(group.options()).lr(rate);
    }
    reference.step();
    EXPECT_GT(optimizer->Step(rate, flat_, gradient), 0);
  }
  size_t next_decayed = 0, next_plain = 0;
  for (const v1::Tensor& tensor : manifest_.tensors()) {
    const torch::Tensor& copy =
        tensor.shape_size() >= 2 ? decayed[next_decayed++] : plain[next_plain++];
    const at::Tensor ours = flat_.narrow(0, static_cast<int64_t>(tensor.offset()),
                                         static_cast<int64_t>(TensorElements(tensor)));
    EXPECT_TRUE(torch::allclose(ours, copy.detach(), 1e-6, 1e-6))
        << tensor.name() << ": " << (ours - copy).abs().max().item<float>();
  }
}

// Broken: a worker beside a GPU would train by another AdamW than one on a CPU.
TEST_F(InnerOptimizerTest, TheTwoWaysOfAdamWAgree) {
  const at::Tensor p = flat_.clone(), gradient = torch::randn_like(flat_);
  const at::Tensor first = torch::zeros_like(flat_), second = torch::zeros_like(flat_);
  const at::Tensor q = flat_.clone(), third = torch::zeros_like(flat_),
                   fourth = torch::zeros_like(flat_);
  for (uint64_t steps = 1; steps <= 5; ++steps) {
    const AdamWStep step(inner_, 1e-2, steps, 0.5f, true);
    UpdateRange(step, 3, 900, p, gradient, first, second);
    UpdateRangeByTensors(step, 3, 900, q, gradient, third, fourth);
  }
  EXPECT_FALSE(at::equal(p, flat_));
  EXPECT_TRUE(at::allclose(p, q, 1e-5, 1e-7)) << (p - q).abs().max().item<float>();
  EXPECT_TRUE(at::allclose(first, third, 1e-5, 1e-7));
  EXPECT_TRUE(at::allclose(second, fourth, 1e-5, 1e-7));
  EXPECT_TRUE(at::equal(p.narrow(0, 0, 3), flat_.narrow(0, 0, 3)));
}

// Broken: a gradient spike would throw the parameters far away although the run asks for clipping.
TEST_F(InnerOptimizerTest, ClipsToTheGlobalNormAsTorchDoes) {
  inner_.set_optimizer("sgd");
  inner_.set_gradient_clip(0.5);
  const at::Tensor before = flat_.clone();
  const at::Tensor gradient = torch::randn_like(flat_);
  torch::Tensor reference = before.clone().requires_grad_(true);
  reference.mutable_grad() = gradient.clone();
  const double norm = torch::nn::utils::clip_grad_norm_(reference, 0.5);
  EXPECT_NEAR(Make()->Step(0.1, flat_, gradient), norm, 1e-4);
  EXPECT_TRUE(torch::allclose(flat_, before - 0.1 * reference.grad(), 1e-6, 1e-6));
}

// Broken: one step of SGD would not be theta - rate * gradient, on which the equivalence to
// data-parallel training rests.
TEST_F(InnerOptimizerTest, SgdIsPlain) {
  inner_.set_optimizer("sgd");
  const at::Tensor before = flat_.clone();
  const at::Tensor gradient = torch::randn_like(flat_);
  Make()->Step(0.1, flat_, gradient);
  EXPECT_TRUE(torch::allclose(flat_, before - 0.1f * gradient, 0, 1e-7));
}

// Broken: one NaN in a gradient would destroy the parameters before anyone is told.
TEST_F(InnerOptimizerTest, AGradientThatIsNotFiniteChangesNothing) {
  for (const char* name : {"sgd", "adamw"}) {
    inner_.set_optimizer(name);
    const auto optimizer = Make();
    const at::Tensor before = flat_.clone();
    const at::Tensor gradient = torch::ones_like(flat_);
    Values(gradient)[5] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_TRUE(std::isnan(optimizer->Step(0.1, flat_, gradient)));
    EXPECT_TRUE(at::equal(before, flat_));
    EXPECT_EQ(*optimizer->state().steps, 0u);
  }
}

// Broken: a spec that no optimiser can follow would train silently wrong.
TEST_F(InnerOptimizerTest, NamesTheFieldThatIsWrong) {
  inner_.set_optimizer("lion");
  EXPECT_EQ(InnerOptimizer::Make(inner_, manifest_).status().message(),
            "inner.optimizer \"lion\" is not known; known: adamw, muon, sgd");
  inner_.set_optimizer("adamw");
  inner_.set_beta2(1.0);
  EXPECT_EQ(InnerOptimizer::Make(inner_, manifest_).status().message(),
            "inner.beta2 is 1; it must be in [0, 1)");
}

}  // namespace
}  // namespace atolld
