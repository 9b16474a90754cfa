#include "worker/model/experts.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <tuple>
#include <vector>

#include "tests/unit/worker/model/models.h"
#include "worker/kernels/torch_version.h"
#include "worker/model/architectures.h"

namespace atolld {
namespace {

struct MixtureOutcome {
  at::Tensor loss, gradient;
};

// One backward pass of a model with random parameters, all alike from call to call.
MixtureOutcome LearnOnce(const v1::ModelSpec& spec, bool checkpointing, double dropout = 0) {
  const auto model = *MakeModel(spec, checkpointing);
  const at::Tensor flat = at::empty({static_cast<int64_t>(model->manifest().elements())});
  model->Initialise(flat, 3);
  torch::manual_seed(7);
  const at::Tensor tokens = torch::randint(0, 256, {3, 16}, at::kLong),
                   targets = (tokens * 5) % 256;
  MixtureOutcome outcome;
  outcome.gradient = at::zeros_like(flat);
  const ModelParameters bound = model->BindTrainable(flat, outcome.gradient);
  outcome.loss = model->Loss(bound, tokens, targets, dropout);
  outcome.loss.backward();
  return outcome;
}

double Off(const at::Tensor& a, const at::Tensor& b) {
  return ((a - b).abs().max() / a.abs().max()).item<double>();
}

ExpertMixture RandomMixture(int64_t experts, int64_t width, int64_t hidden) {
  const auto matrix = [](int64_t out, int64_t in) {
    return Linear{(torch::randn({out, in}) * 0.3).requires_grad_(true), {}};
  };
  ExpertMixture mixture{matrix(experts, width), {}};
  for (int64_t i = 0; i < experts; ++i) {
    mixture.experts.push_back(
        {matrix(hidden, width), matrix(hidden, width), matrix(width, hidden)});
  }
  return mixture;
}

// The same by its definition: each expert computes all tokens, and its weight is 0 where it is not
// chosen.
at::Tensor SlowMix(const ExpertMixture& mixture, const MixtureRule& rule, const at::Tensor& x) {
  const at::Tensor all = at::softmax(at::mm(x, mixture.router.weight.t()), -1);
  const at::Tensor least = std::get<0>(at::topk(all, rule.per_token)).select(1, rule.per_token - 1);
  at::Tensor weights = all * all.ge(least.unsqueeze(1));
  if (rule.normalised) weights = weights / weights.sum(1, /*keepdim=*/true);
  at::Tensor y = at::zeros_like(x);
  for (size_t i = 0; i < mixture.experts.size(); ++i) {
    const GatedNetwork& expert = mixture.experts[i];
    const at::Tensor hidden =
        at::silu(at::mm(x, expert.gate.weight.t())) * at::mm(x, expert.up.weight.t());
    const auto number = static_cast<int64_t>(i);
    y = y + at::mm(hidden, expert.down.weight.t()) * weights.select(1, number).unsqueeze(1);
  }
  return y;
}

std::vector<at::Tensor> Leaves(const ExpertMixture& mixture) {
  std::vector<at::Tensor> leaves = {mixture.router.weight};
  for (const GatedNetwork& expert : mixture.experts) {
    leaves.insert(leaves.end(), {expert.gate.weight, expert.up.weight, expert.down.weight});
  }
  return leaves;
}

// Broken: a token would get another token's result, or a gradient that is not its own. With few
// tokens some experts have none.
TEST(ExpertsTest, ComputesWhatTheDefinitionSays) {
  for (const int64_t tokens : {1, 3, 60}) {
    for (const MixtureRule rule :
         {MixtureRule{2, true}, MixtureRule{3, false}, MixtureRule{1, false}}) {
      torch::manual_seed(11);
      const ExpertMixture mixture = RandomMixture(7, 8, 12);
      const std::vector<at::Tensor> leaves = Leaves(mixture);
      const at::Tensor x = torch::randn({tokens, 8}).requires_grad_(true);
      const at::Tensor slope = torch::randn({tokens, 8});
      std::vector<at::Tensor> gradients[2];
      at::Tensor results[2];
      for (const int slow : {0, 1}) {
        at::Tensor none;
        results[slow] = slow == 1 ? SlowMix(mixture, rule, x) : Mix(mixture, rule, x, &none);
        (results[slow] * slope).sum().backward();
        gradients[slow].push_back(x.grad().clone());
        x.mutable_grad() = at::Tensor();
        for (at::Tensor leaf : leaves) {
          gradients[slow].push_back(leaf.grad().defined() ? leaf.grad().clone()
                                                          : at::zeros_like(leaf));
          leaf.mutable_grad() = at::Tensor();
        }
      }
      EXPECT_TRUE(at::allclose(results[0], results[1], 1e-4, 1e-5)) << tokens;
      for (size_t i = 0; i < gradients[0].size(); ++i) {
        EXPECT_TRUE(at::allclose(gradients[0][i], gradients[1][i], 1e-4, 1e-4))
            << tokens << " " << i;
      }
    }
  }
}

// Broken: a router would be trained towards another balance than transformers', or not at all.
TEST(ExpertsTest, TheBalanceLossIsLeastWhenChoicesAreEven) {
  const at::Tensor even = at::tensor({4.0f, 4.0f, 4.0f, 4.0f, 2.0f, 2.0f, 2.0f, 2.0f});
  EXPECT_NEAR(BalanceLoss(even, 8).item<double>(), 2, 1e-6);  // two experts a token
  const at::Tensor uneven = at::tensor({8.0f, 8.0f, 0.0f, 0.0f, 4.0f, 4.0f, 0.0f, 0.0f});
  EXPECT_NEAR(BalanceLoss(uneven, 8).item<double>(), 4, 1e-6);
}

// Broken: the router's sums would take the place of activations.
TEST(ExpertsTest, WhatIsJoinedComesApart) {
  const at::Tensor x = torch::randn({3, 4}), sums = torch::randn({6});
  const JoinedSums parts = SplitSums(JoinSums({x, sums}), 4, 6);
  EXPECT_TRUE(at::equal(parts.x, x));
  EXPECT_TRUE(at::equal(parts.sums, sums));
  EXPECT_TRUE(JoinSums({x, {}}).is_same(x));
  EXPECT_FALSE(SplitSums(x, 4, 0).sums.defined());
}

// Broken: two peers that train alike would have other parameters, and a run could not be repeated.
TEST(ExpertsTest, EqualStepsHaveEqualGradients) {
  for (const v1::ModelSpec& spec : TinyMixtures()) {
    const MixtureOutcome once = LearnOnce(spec, false), again = LearnOnce(spec, false);
    EXPECT_TRUE(at::equal(once.loss, again.loss)) << spec.decoder().family();
    EXPECT_TRUE(at::equal(once.gradient, again.gradient)) << spec.decoder().family();
  }
}

// Broken: with checkpointing the tokens of the second pass would go to other experts, or the
// router's loss would be counted twice.
TEST(ExpertsTest, CheckpointingChangesNothing) {
  for (const v1::ModelSpec& spec : TinyMixtures()) {
    for (const double dropout : {0.0, 0.1}) {
      const MixtureOutcome plain = LearnOnce(spec, false, dropout);
      const MixtureOutcome again = LearnOnce(spec, true, dropout);
      EXPECT_TRUE(at::equal(plain.loss, again.loss)) << spec.decoder().family();
      EXPECT_LT(Off(plain.gradient, again.gradient), 1e-5) << spec.decoder().family();
    }
  }
}

// Broken: the losses that a run reports would depend on what it adds to train its routers.
TEST(ExpertsTest, OnlyTrainingHasTheRoutersLoss) {
  for (v1::ModelSpec spec : TinyMixtures()) {
    spec.mutable_decoder()->set_router_loss(0.5);
    v1::ModelSpec without = spec;
    without.mutable_decoder()->set_router_loss(0);
    const auto model = *MakeModel(spec), plain = *MakeModel(without);
    const at::Tensor flat = at::empty({static_cast<int64_t>(model->manifest().elements())});
    model->Initialise(flat, 3);
    const at::Tensor tokens = at::arange(16, at::kLong).view({1, 16}), targets = tokens * 3 + 1;
    const ModelParameters bound = model->Bind(flat);
    const double training = model->Loss(bound, tokens, targets, 0).item<double>();
    const at::NoGradGuard no_grad;
    const double evaluation = model->Loss(bound, tokens, targets, 0).item<double>();
    EXPECT_EQ(evaluation, plain->Loss(bound, tokens, targets, 0).item<double>());
    EXPECT_GT(training, evaluation + 0.5 * 0.9 * spec.decoder().experts_per_token());
  }
}

// Broken: a run in bf16 would end in an exception, or learn from a coarse sum of its loss.
TEST(ExpertsTest, InBf16TheLossStaysFp32) {
  for (const v1::ModelSpec& spec : TinyMixtures()) {
    const MixtureOutcome exact = LearnOnce(spec, false);
    const Autocast autocast(at::kCPU, true);
    const MixtureOutcome coarse = LearnOnce(spec, false);
    EXPECT_EQ(coarse.loss.scalar_type(), at::kFloat);
    EXPECT_NEAR(coarse.loss.item<double>(), exact.loss.item<double>(), 0.02);
    EXPECT_TRUE(at::isfinite(coarse.gradient).all().item<bool>());
  }
}

}  // namespace
}  // namespace atolld
