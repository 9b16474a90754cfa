#include "worker/training/muon.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/unit/worker/training/fixtures.h"
#include "worker/base/manifest.h"

namespace atolld {
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
