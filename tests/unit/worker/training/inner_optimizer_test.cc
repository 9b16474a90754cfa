#include "worker/training/inner_optimizer.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/unit/worker/training/fixtures.h"
#include "worker/base/manifest.h"

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

// Broken: a tensor that is trained again would not be stepped as by an optimiser that begins with
// it, or would be stepped with the gradient of another one.
TEST_F(InnerOptimizerTest, ATensorThatIsTrainedAgainBeginsAnew) {
  for (const char* name : {"adamw", "muon", "sgd"}) {
    inner_.set_optimizer(name);
    inner_.set_muon_momentum(0.9);
    const auto optimizer = Make(), fresh = Make(), all = Make();
    std::vector<bool> flags(static_cast<size_t>(manifest_.tensors_size()), true);
    flags[1] = flags[3] = false;
    const TrainedTensors some(manifest_, flags);
    const auto part = [&](const at::Tensor& flat, int i) {
      return flat.narrow(0, static_cast<int64_t>(manifest_.tensors(i).offset()),
                         static_cast<int64_t>(TensorElements(manifest_.tensors(i))));
    };
    const at::Tensor ours = flat_.clone(), others = flat_.clone();
    for (const bool trained : {true, false, false, true, true}) {
      const at::Tensor gradient = torch::randn_like(flat_);
      std::vector<at::Tensor> pieces;
      for (const TrainedTensors::Piece& piece : some.pieces()) {
        pieces.push_back(gradient.narrow(0, static_cast<int64_t>(piece.first),
                                         static_cast<int64_t>(piece.count)));
      }
      optimizer->Train(trained ? TrainedTensors(manifest_) : some);
      const at::Tensor before = ours.clone(), by_fresh = ours.clone();
      optimizer->Step(0.01, ours, trained ? gradient : at::cat(pieces));
      all->Step(0.01, others, gradient);
      const bool again = trained && *optimizer->state().steps > 1;
      if (again) fresh->Step(0.01, by_fresh, gradient);
      for (int i = 0; i < manifest_.tensors_size(); ++i) {
        const bool always = flags[static_cast<size_t>(i)];
        const at::Tensor& wanted = always ? others : again ? by_fresh : trained ? others : before;
        EXPECT_TRUE(at::equal(part(ours, i), part(wanted, i))) << name << " " << i;
      }
    }
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

namespace {

// The iteration by its definition: on the singular values, which is all that it changes.
at::Tensor BySingularValues(const at::Tensor& matrix) {
  const auto [u, s, vh] = at::linalg_svd(matrix.to(at::kDouble), /*full_matrices=*/false);
  at::Tensor values = s / s.norm();
  for (int i = 0; i < 5; ++i) {
    values = 3.4445 * values - 4.7750 * values.pow(3) + 2.0315 * values.pow(5);
  }
  return u.matmul(at::diag(values)).matmul(vh);
}

v1::InnerSpec MuonSpec() {
  v1::InnerSpec inner = TinySpec().inner();
  inner.set_optimizer("muon");
  inner.set_muon_momentum(0.95);
  inner.set_gradient_clip(0);
  return inner;
}

// Broken: steps would not be orthogonal, which is what Muon is.
TEST(MuonTest, OrthogonalisesAsTheSingularValuesSay) {
  torch::manual_seed(1);
  for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{16, 16}, {48, 16}, {16, 64}}) {
    const at::Tensor matrix = torch::randn({rows, columns}) * 1e-3;
    const at::Tensor made = Orthogonalised(matrix).to(at::kDouble);
    const at::Tensor wanted = BySingularValues(matrix);
    EXPECT_EQ(made.sizes(), matrix.sizes());
    EXPECT_LT((made - wanted).abs().max().item<double>(), 1e-4) << rows << " x " << columns;
    const at::Tensor values = at::linalg_svdvals(made);
    EXPECT_LT(values.max().item<double>(), 1.25);
    if (rows != columns) {
      EXPECT_GT(values.min().item<double>(), 0.6);
    }
  }
  EXPECT_EQ(Orthogonalised(torch::zeros({4, 8})).abs().max().item<float>(), 0);
}

// Broken: momentum, scale or decay would not be the published ones, or embeddings, head and norms
// not AdamW's.
TEST(MuonTest, StepsAreTheFormulas) {
  const v1::Manifest manifest = *MakeManifest(TinySpec().model());
  const v1::InnerSpec inner = MuonSpec();
  v1::InnerSpec adamw_inner = inner;
  adamw_inner.set_optimizer("adamw");
  const auto muon = *InnerOptimizer::Make(inner, manifest);
  const auto adamw = *InnerOptimizer::Make(adamw_inner, manifest);
  torch::manual_seed(2);
  const at::Tensor start = torch::randn({static_cast<int64_t>(manifest.elements())});
  const at::Tensor flat = start.clone(), by_adamw = start.clone();
  std::vector<at::Tensor> gradients;
  for (int step = 0; step < 4; ++step) {
    gradients.push_back(torch::randn_like(flat));
    EXPECT_GT(muon->Step(0.01, flat, gradients.back()), 0);
    adamw->Step(0.01, by_adamw, gradients.back());
  }
  int matrices = 0;
  for (const v1::Tensor& tensor : manifest.tensors()) {
    const auto part = [&tensor](const at::Tensor& all) {
      return all.narrow(0, static_cast<int64_t>(tensor.offset()),
                        static_cast<int64_t>(TensorElements(tensor)));
    };
    const bool in_block = tensor.name().find("h.") != std::string::npos;
    if (!in_block || tensor.shape_size() != 2) {
      EXPECT_TRUE(at::equal(part(flat), part(by_adamw))) << tensor.name();
      continue;
    }
    ++matrices;
    const auto rows = static_cast<int64_t>(tensor.shape(0));
    const auto columns = static_cast<int64_t>(tensor.shape(1));
    at::Tensor wanted = part(start).view({rows, columns}).to(at::kDouble);
    at::Tensor momentum = at::zeros_like(wanted);
    for (const at::Tensor& gradient : gradients) {
      const at::Tensor g = part(gradient).view({rows, columns}).to(at::kDouble);
      momentum = 0.95 * momentum + g;
      wanted = wanted * (1 - 0.01 * 0.1) -
               0.01 * 0.2 * std::sqrt(static_cast<double>(std::max(rows, columns))) *
                   BySingularValues(g + 0.95 * momentum);
    }
    const at::Tensor made = part(flat).view({rows, columns}).to(at::kDouble);
    EXPECT_LT((made - wanted).abs().max().item<double>(), 2e-5) << tensor.name();
  }
  EXPECT_EQ(matrices, 8);  // four in each of two blocks
}

// Broken: a model whose blocks are named otherwise would be trained by AdamW alone.
TEST(MuonTest, MatricesOfBlocksAreMuons) {
  const auto is = [](const char* name, std::vector<uint64_t> shape) {
    v1::Tensor tensor;
    tensor.set_name(name);
    for (const uint64_t size : shape) tensor.add_shape(size);
    return IsMuons(tensor);
  };
  EXPECT_TRUE(is("transformer.h.0.mlp.c_fc.weight", {4, 4}));
  EXPECT_TRUE(is("model.layers.11.self_attn.q_proj.weight", {4, 4}));
  EXPECT_FALSE(is("transformer.h.0.ln_1.weight", {4}));
  EXPECT_FALSE(is("transformer.wte.weight", {4, 4}));
  EXPECT_FALSE(is("lm_head.weight", {4, 4}));
}

}  // namespace

}  // namespace atolld
