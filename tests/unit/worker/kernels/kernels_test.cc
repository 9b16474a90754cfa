// Would fail if the kernels computed other values or gradients than libtorch's plain operations.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "compression/simd.h"
#include "worker/kernels/fused.h"
#include "worker/kernels/matrix_kernels.h"
#include "worker/kernels/row_kernels.h"
#include "worker/model/layers.h"

namespace atolld {
namespace {

using Tensors = std::vector<at::Tensor>;
using Function = std::function<at::Tensor(const Tensors&)>;

constexpr double kClose = 1e-5;  // of the largest value

// Relative to the largest value, or to 1 where all are smaller: one that sees a single key has a
// gradient of 0, but for the rounding of what cancels out.
double Apart(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor exact = b.to(at::kDouble);
  const double largest = exact.abs().max().item<double>();
  return (a.to(at::kDouble) - exact).abs().max().item<double>() / std::max(largest, 1.0);
}

// The value of `function` at copies of `inputs`, and the gradients of those that are floats, each
// value weighted otherwise.
Tensors OutcomeOf(const Function& function, const Tensors& inputs, at::ScalarType type) {
  Tensors own;
  for (const at::Tensor& input : inputs) {
    own.push_back(input.is_floating_point()
                      ? input.to(type, /*non_blocking=*/false, /*copy=*/true).requires_grad_(true)
                      : input);
  }
  const at::Tensor y = function(own);
  const at::Tensor weights = at::sin(at::arange(y.numel(), at::kDouble) + 1).view(y.sizes());
  (y * weights.to(type)).sum().backward();
  Tensors outcome = {y.detach()};
  for (const at::Tensor& one : own) {
    if (one.is_floating_point()) outcome.push_back(one.grad());
  }
  return outcome;
}

// `fused` in fp32 against `plain` in fp64.
void ExpectSame(const Function& fused, const Function& plain, const Tensors& inputs,
                const std::string& what) {
  const Tensors ours = OutcomeOf(fused, inputs, at::kFloat);
  const Tensors theirs = OutcomeOf(plain, inputs, at::kDouble);
  ASSERT_EQ(ours.size(), theirs.size());
  for (size_t i = 0; i < ours.size(); ++i) {
    ASSERT_TRUE(ours[i].defined()) << what << ", gradient " << i;
    EXPECT_LT(Apart(ours[i], theirs[i]), kClose)
        << what << (i == 0 ? ", the value" : ", gradient ") << i;
  }
}

std::string Named(const std::vector<int64_t>& sizes) { return c10::str(at::IntArrayRef(sizes)); }

// Broken: a product whose sizes are no multiple of a tile would be wrong at its edges, or one
// instruction set would compute something else.
TEST(KernelsTest, ProductsOfAnySizeAreThoseOfLibtorch) {
  torch::manual_seed(1);
  for (const std::string& target : SimdTargetNames()) {
    const ScopedSimdTarget scope(target);
    for (const auto& [rows, columns, depth] : std::vector<std::array<int64_t, 3>>{
             {1, 1, 1}, {6, 64, 16}, {7, 65, 3}, {13, 130, 300}, {800, 5, 17}, {48, 96, 257}}) {
      const at::Tensor a = torch::randn({rows, depth}), b = torch::randn({depth, columns});
      const at::Tensor at = a.t().contiguous(), bt = b.t().contiguous();
      const at::Tensor expected = at::mm(a.to(at::kDouble), b.to(at::kDouble));
      const auto view = [](const at::Tensor& t, bool turned) -> MatrixView {
        const auto width = static_cast<size_t>(t.size(1));
        return {t.data_ptr<float>(), turned ? 1 : width, turned ? width : 1};
      };
      for (const int form : {0, 1, 2, 3}) {
        at::Tensor c = torch::ones({rows, columns});
        const bool add = form % 2 == 1;
        Multiply(view(form < 2 ? a : at, form >= 2), view(form % 2 == 0 ? b : bt, form % 2 == 1),
                 static_cast<size_t>(rows), static_cast<size_t>(columns),
                 static_cast<size_t>(depth), add, c.data_ptr<float>(),
                 static_cast<size_t>(columns));
        EXPECT_LT(Apart(c - (add ? 1 : 0), expected), kClose)
            << target << " " << Named({rows, columns, depth, form});
      }
    }
  }
}

struct AttentionCase {
  int64_t batch, tokens, heads, groups, head, window;
};

Function PlainAttention(const AttentionCase& c) {
  return [c](const Tensors& in) {
    const auto split = [&](const at::Tensor& t, int64_t count) {
      return t.view({c.batch, c.tokens, count, c.head})
          .transpose(1, 2)
          .repeat_interleave(c.heads / count, 1);
    };
    AttentionRule rule;
    rule.window = c.window;
    return CausalAttention(split(in[0], c.heads), split(in[1], c.groups), split(in[2], c.groups), 0,
                           {}, rule)
        .transpose(1, 2)
        .reshape({c.batch * c.tokens, c.heads * c.head});
  };
}

AttentionLayout LayoutOf(const AttentionCase& c) {
  return {c.batch, c.heads, c.groups, c.head, c.window, 1 / std::sqrt(static_cast<double>(c.head))};
}

Tensors AttentionInputs(const AttentionCase& c) {
  const int64_t rows = c.batch * c.tokens;
  return {2 * torch::randn({rows, c.heads * c.head}), 2 * torch::randn({rows, c.groups * c.head}),
          torch::randn({rows, c.groups * c.head})};
}

// Broken: attention would see the future or beyond its window, mix heads up, or fail where a
// sequence is no multiple of a block.
TEST(KernelsTest, AttentionIsThatOfLibtorch) {
  torch::manual_seed(2);
  const std::vector<AttentionCase> cases = {
      {1, 1, 1, 1, 16, 0},     {2, 7, 2, 1, 5, 0},    {2, 64, 4, 4, 32, 0},
      {1, 65, 4, 2, 24, 0},    {1, 130, 2, 1, 64, 0}, {1, 150, 3, 1, 16, 37},
      {1, 200, 2, 2, 128, 64}, {1, 70, 1, 1, 20, 1},  {1, 193, 2, 1, 8, 130}};
  for (const std::string& target : SimdTargetNames()) {
    const ScopedSimdTarget scope(target);
    for (const AttentionCase& c : cases) {
      const std::string what =
          target + Named({c.batch, c.tokens, c.heads, c.groups, c.head, c.window});
      ExpectSame(
          [&](const Tensors& in) { return FusedAttention(in[0], in[1], in[2], LayoutOf(c)); },
          PlainAttention(c), AttentionInputs(c), what);
    }
  }
}

// Broken: GPTs, whose queries, keys and values are one matrix, would have another attention.
TEST(KernelsTest, AttentionOfOneMatrixIsThatOfThree) {
  torch::manual_seed(3);
  const AttentionCase c{2, 50, 4, 2, 12, 0};
  const Tensors in = AttentionInputs(c);
  const Tensors three =
      OutcomeOf([&](const Tensors& x) { return FusedAttention(x[0], x[1], x[2], LayoutOf(c)); }, in,
                at::kFloat);
  const Tensors one = OutcomeOf([&](const Tensors& x) { return FusedAttention(x[0], LayoutOf(c)); },
                                {at::cat(in, 1)}, at::kFloat);
  EXPECT_TRUE(at::equal(one[0], three[0]));
  EXPECT_TRUE(at::equal(one[1], at::cat({three[1], three[2], three[3]}, 1)));
}

// Broken: a linear layer, its bias or what is added to it would train otherwise.
TEST(KernelsTest, LinearIsThatOfLibtorch) {
  torch::manual_seed(4);
  for (const int64_t rows : {1, 9, 530}) {
    const Tensors inputs = {torch::randn({rows, 37}), torch::randn({70, 37}), torch::randn({70}),
                            torch::randn({rows, 70})};
    ExpectSame([](const Tensors& in) { return FusedLinear(in[0], in[1], in[2], in[3]); },
               [](const Tensors& in) { return at::linear(in[0], in[1], in[2]) + in[3]; }, inputs,
               "all");
    ExpectSame([](const Tensors& in) { return FusedLinear(in[0], in[1]); },
               [](const Tensors& in) { return at::linear(in[0], in[1]); }, {inputs[0], inputs[1]},
               "neither");
  }
}

TEST(KernelsTest, NormsAreThoseOfLibtorch) {
  torch::manual_seed(5);
  for (const int64_t width : {1, 5, 32, 77}) {
    const Tensors inputs = {3 * torch::randn({300, width}) + 1, torch::randn({width}),
                            torch::randn({width})};
    ExpectSame(
        [](const Tensors& in) {
          return FusedNorm(in[0], in[1], in[2], {1e-5, true});
        },
        [width](const Tensors& in) { return at::layer_norm(in[0], {width}, in[1], in[2], 1e-5); },
        inputs, "LayerNorm " + std::to_string(width));
    for (const double shift : {0.0, 1.0}) {
      ExpectSame(
          [shift](const Tensors& in) {
            return FusedNorm(in[0], in[1], {}, {1e-6, false, shift});
          },
          [shift](const Tensors& in) {
            const at::Tensor square = in[0].square().mean(-1, /*keepdim=*/true);
            return in[0] * at::rsqrt(square + 1e-6) * (in[1] + shift);
          },
          {inputs[0], inputs[1]}, "RMSNorm " + std::to_string(width));
    }
  }
}

TEST(KernelsTest, ActivationsAreThoseOfLibtorch) {
  torch::manual_seed(6);
  const Tensors inputs = {5 * torch::randn({33, 7}), torch::randn({33, 7})};
  const std::vector<std::pair<Activation, std::function<at::Tensor(const at::Tensor&)>>> all = {
      {Activation::kGelu, [](const at::Tensor& x) { return at::gelu(x); }},
      {Activation::kGeluTanh, [](const at::Tensor& x) { return at::gelu(x, "tanh"); }},
      {Activation::kSilu, [](const at::Tensor& x) { return at::silu(x); }}};
  for (const auto& [activation, plain] : all) {
    const std::string what = std::to_string(static_cast<int>(activation));
    ExpectSame([a = activation](const Tensors& in) { return FusedActivation(a, in[0]); },
               [p = plain](const Tensors& in) { return p(in[0]); }, {inputs[0]}, what);
    ExpectSame([a = activation](const Tensors& in) { return FusedGate(a, in[0], in[1]); },
               [p = plain](const Tensors& in) { return p(in[0]) * in[1]; }, inputs, what);
  }
}

TEST(KernelsTest, RotationsAreThoseOfPairs) {
  torch::manual_seed(7);
  const int64_t batch = 2, tokens = 9, heads = 3, head = 10;
  const at::Tensor angles = torch::randn({tokens, head / 2});
  const at::Tensor cos = at::cos(angles), sin = at::sin(angles);
  ExpectSame([&](const Tensors& in) { return FusedRotation(in[0], cos, sin, heads); },
             [&](const Tensors& in) {
               const Tensors halves = in[0].view({batch, tokens, heads, 2, head / 2}).unbind(3);
               const at::Tensor c = cos.to(at::kDouble).unsqueeze(1);
               const at::Tensor s = sin.to(at::kDouble).unsqueeze(1);
               return at::stack({halves[0] * c - halves[1] * s, halves[1] * c + halves[0] * s}, 3)
                   .reshape({batch * tokens, heads * head});
             },
             {torch::randn({batch * tokens, heads * head})}, "rotation");
}

TEST(KernelsTest, EmbeddingsAndTheLossAreThoseOfLibtorch) {
  torch::manual_seed(8);
  const at::Tensor tokens = torch::randint(11, {3, 5}, at::kLong);
  ExpectSame([&](const Tensors& in) { return FusedEmbedding(in[0], tokens, in[1]); },
             [&](const Tensors& in) {
               return (at::embedding(in[0], tokens) + in[1].narrow(0, 0, 5)).view({15, 6});
             },
             {torch::randn({11, 6}), torch::randn({8, 6})}, "embedding");
  at::Tensor targets = torch::randint(37, {15}, at::kLong);
  targets[4] = -100;
  ExpectSame([&](const Tensors& in) { return FusedCrossEntropy(in[0], targets, -100); },
             [&](const Tensors& in) { return at::cross_entropy_loss(in[0], targets); },
             {8 * torch::randn({15, 37})}, "cross-entropy");
}

// Broken: a diverged model would go on with a finite loss. ARM's minimum of a number and NaN is the
// number.
TEST(KernelsTest, WhatIsNoNumberStaysNone) {
  const at::Tensor x = at::full({3, 17}, std::nan(""), at::kFloat);
  for (const Activation activation :
       {Activation::kGelu, Activation::kGeluTanh, Activation::kSilu}) {
    EXPECT_TRUE(FusedActivation(activation, x).isnan().all().item<bool>());
  }
  const at::Tensor loss = FusedCrossEntropy(x, at::zeros({3}, at::kLong), -100);
  EXPECT_TRUE(std::isnan(loss.item<float>()));
}

// Broken: a token that the model has not would be read from memory that is somebody else's.
TEST(KernelsTest, WhatIsNoTokenIsRefused) {
  const at::Tensor weight = torch::randn({4, 3}), token = at::full({1, 1}, 4, at::kLong);
  EXPECT_THROW(FusedEmbedding(weight, token), c10::Error);
  EXPECT_THROW(FusedEmbedding(weight, at::zeros({1, 5}, at::kLong), weight), c10::Error);
  EXPECT_THROW(FusedCrossEntropy(weight, at::full({4}, 3, at::kLong), -100), c10::Error);
}

// All of a block, small parts of it per thread.
Tensors BlockOutcome(int threads) {
  torch::manual_seed(9);
  at::set_num_threads(threads);
  const AttentionCase c{3, 200, 4, 2, 16, 0};
  const int64_t rows = c.batch * c.tokens;
  return OutcomeOf(
      [&](const Tensors& in) {
        const at::Tensor x = FusedNorm(in[0], in[1], in[2], {1e-5, true});
        const at::Tensor y = FusedAttention(FusedLinear(x, in[3]), LayoutOf(c));
        return FusedLinear(FusedActivation(Activation::kGelu, y), in[4], in[5], in[0]);
      },
      {torch::randn({rows, 64}), torch::randn({64}), torch::randn({64}), torch::randn({128, 64}),
       torch::randn({64, 64}), torch::randn({64})},
      at::kFloat);
}

// Broken: the same run would have other bits on a machine with more cores.
TEST(KernelsTest, ThreadsChangeNoBit) {
  const int before = at::get_num_threads();
  const Tensors one = BlockOutcome(1), three = BlockOutcome(3);
  at::set_num_threads(before);
  for (size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(at::equal(one[i], three[i])) << i;
}

// Broken: a parameter that is used twice, as a tied head is, or has a gradient from an earlier part
// of the batch would lose a part of its gradient.
TEST(KernelsTest, GradientsAreAddedToWhatIsThere) {
  torch::manual_seed(10);
  const at::Tensor x = torch::randn({12, 6}), ones = torch::ones({12, 6});
  at::Tensor with = torch::randn({6, 6}).requires_grad_(true);
  at::Tensor without = with.detach().clone().requires_grad_(true);
  const at::Tensor flat = torch::full({36}, 0.5f);
  with.mutable_grad() = flat.view({6, 6});
  for (const at::Tensor& weight : {with, without}) {
    (FusedLinear(FusedLinear(x, weight), weight) * ones).sum().backward();
  }
  EXPECT_EQ(with.grad().data_ptr<float>(), flat.data_ptr<float>());
  EXPECT_LT(Apart(flat.view({6, 6}) - 0.5, without.grad()), kClose);
}

// Broken: a snapshot of the optimiser would go on with other bits than those it was taken from.
TEST(KernelsTest, AdamWHasTheBitsOfThePlainLoop) {
  torch::manual_seed(11);
  const AdamWFactors c{0.7f, 0.9f, 0.99f, 0.1f, 0.01f, 3e-3f, 0.2f, 0.999f, 1e-8f};
  for (const std::string& target : SimdTargetNames()) {
    const ScopedSimdTarget scope(target);
    for (const int64_t size : {1, 16, 45}) {
      at::Tensor p = torch::randn({size}), m = torch::randn({size}), v = torch::rand({size});
      const at::Tensor g = torch::randn({size});
      const at::Tensor p0 = p.clone(), m0 = m.clone(), v0 = v.clone();
      AdamWPass(c, static_cast<size_t>(size), p.data_ptr<float>(), g.data_ptr<float>(),
                m.data_ptr<float>(), v.data_ptr<float>());
      for (int64_t i = 0; i < size; ++i) {
        const float gradient = g.data_ptr<float>()[i] * c.clip;
        const float first = c.beta1 * m0.data_ptr<float>()[i] + c.one_minus_beta1 * gradient;
        const float second =
            c.beta2 * v0.data_ptr<float>()[i] + c.one_minus_beta2 * (gradient * gradient);
        const float denominator = std::sqrt(second) / c.root_correction + c.epsilon;
        EXPECT_EQ(m.data_ptr<float>()[i], first) << target;
        EXPECT_EQ(v.data_ptr<float>()[i], second) << target;
        EXPECT_EQ(p.data_ptr<float>()[i],
                  p0.data_ptr<float>()[i] * c.keep - c.step_size * (first / denominator))
            << target;
      }
    }
  }
}

// Broken: the clipped gradient would differ from what it was, or between CPUs.
TEST(KernelsTest, SumsOfSquaresHaveTheSameBitsOnEveryCpu) {
  torch::manual_seed(12);
  const at::Tensor values = torch::randn({1003});
  double lanes[16] = {}, expected = 0;
  for (int i = 0; i < 992; ++i) {
    const auto value = static_cast<double>(values.data_ptr<float>()[i]);
    lanes[i % 16] += value * value;
  }
  for (int i = 992; i < 1003; ++i) {
    const auto value = static_cast<double>(values.data_ptr<float>()[i]);
    expected += value * value;
  }
  for (const double lane : lanes) expected += lane;
  for (const std::string& target : SimdTargetNames()) {
    const ScopedSimdTarget scope(target);
    EXPECT_EQ(SumOfSquares(values.data_ptr<float>(), 1003), expected) << target;
  }
}

}  // namespace
}  // namespace atolld
