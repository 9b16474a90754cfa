// The exact equivalence that low-communication training starts from: with one inner step of plain
// SGD, averaging the peers' pseudo-gradients is data-parallel SGD on the joined batch.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "compression/codec.h"
#include "optimizer/aggregation_rule.h"
#include "optimizer/outer_rule.h"
#include "tests/unit/worker/training/fixtures.h"
#include "worker/training/trainer.h"

namespace atolld {
namespace {

constexpr uint32_t kPeers = 3;
constexpr uint32_t kRounds = 5;

// The outer step as the daemon takes it: each update through the fp32 codec, the weighted mean in
// roster order, the rule `average`.
std::vector<float> OuterStep(const std::vector<float>& theta,
                             const std::vector<std::vector<float>>& locals) {
  const Codec& codec = **FindCodec("fp32");
  const OuterRule& rule = **FindOuterRule("average");
  std::vector<float> mean(theta.size());
  std::fill(mean.begin(), mean.end(), 0.0f);
  const std::vector<float> weights(locals.size(), 768);  // tokens
  std::vector<uint8_t> bytes(codec.MaxEncodedBytes(theta.size()));
  for (size_t peer = 0; peer < locals.size(); ++peer) {
    std::vector<float> update(theta.size());
    for (size_t i = 0; i < theta.size(); ++i) update[i] = theta[i] - locals[peer][i];
    const auto used = codec.Encode(update, absl::MakeSpan(bytes));
    EXPECT_TRUE(used.ok()) << used.status();
    const auto sent = absl::MakeConstSpan(bytes).first(*used);
    EXPECT_TRUE(codec.DecodeAccumulate(sent, weights[peer], absl::MakeSpan(mean)).ok());
  }
  EXPECT_TRUE(FinishMean(weights, absl::MakeSpan(mean)).ok());
  std::vector<float> next = theta;
  EXPECT_TRUE(rule.Step(*rule.Scalars({1, 0}), mean, absl::MakeSpan(next), {}).ok());
  return next;
}

// Broken: what is exchanged would not be the gradient's equivalent, and no comparison with
// data-parallel training would mean anything.
TEST(DataParallelTest, OneSgdStepAndAveragingIsDataParallelSgd) {
  const auto corpus = TrainingData::FromText(SomeText(20000), 0.1);
  ASSERT_TRUE(corpus.ok());
  v1::RunSpec spec = TinySpec();
  spec.mutable_inner()->set_optimizer("sgd");
  spec.mutable_inner()->set_learning_rate(0.5);
  spec.mutable_inner()->set_gradient_clip(0);  // a norm over a part is not the norm over all
  const uint32_t batch = spec.inner().batch();

  const auto make = [&] {
    auto trainer = Trainer::Make(spec, **corpus);
    EXPECT_TRUE(trainer.ok() && (*trainer)->Initialise().ok());
    return *std::move(trainer);
  };
  const std::unique_ptr<Trainer> joined = make();
  std::vector<std::unique_ptr<Trainer>> peers;
  for (uint32_t i = 0; i < kPeers; ++i) peers.push_back(make());
  std::vector<float> theta(joined->parameters().begin(), joined->parameters().end());
  const std::vector<float> initial = theta;

  for (uint64_t round = 0; round < kRounds; ++round) {
    std::vector<uint64_t> all;
    std::vector<std::vector<float>> locals;
    for (uint32_t i = 0; i < kPeers; ++i) {
      std::vector<uint64_t> own;
      for (uint32_t j = 0; j < batch; ++j) own.push_back((round * kPeers + i) * batch + j);
      all.insert(all.end(), own.begin(), own.end());
      const absl::Span<float> parameters = peers[i]->parameters();
      std::copy(theta.begin(), theta.end(), parameters.begin());
      ASSERT_TRUE(peers[i]->Step(round, own).ok());
      locals.emplace_back(parameters.begin(), parameters.end());
    }
    theta = OuterStep(theta, locals);
    ASSERT_TRUE(joined->Step(round, all).ok());
  }

  double difference = 0, movement = 0, norm = 0;
  for (size_t i = 0; i < theta.size(); ++i) {
    const double reference = static_cast<double>(joined->parameters()[i]);
    difference += std::pow(static_cast<double>(theta[i]) - reference, 2);
    movement += std::pow(reference - static_cast<double>(initial[i]), 2);
    norm += reference * reference;
  }
  EXPECT_LT(std::sqrt(difference / norm), 1e-5);
  // The stricter form: relative to what was learned, not to the parameters that were there before.
  EXPECT_LT(std::sqrt(difference / movement), 1e-5);
  EXPECT_GT(std::sqrt(movement / norm), 1e-2);
}

}  // namespace
}  // namespace atolld
