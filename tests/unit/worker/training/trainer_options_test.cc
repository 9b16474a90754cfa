// What a run may choose about how a step is computed: parts, recomputation, precision, optimiser.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "tests/unit/worker/training/trainer_fixture.h"
#include "worker/training/inner_optimizer.h"
#include "worker/training/trainer.h"

namespace atolld {
namespace {

class TrainerOptionsTest : public TrainerFixture {
 protected:
  static double Step(Trainer& trainer, uint64_t step) {
    return TrainerFixture::Step(trainer, step, 6);
  }

  // The largest difference between the gradients of both, over the largest value.
  static double Difference(const Trainer& a, const Trainer& b) {
    double most = 0, largest = 0;
    for (size_t i = 0; i < a.gradient().size(); ++i) {
      most = std::max(most, std::abs(static_cast<double>(a.gradient()[i] - b.gradient()[i])));
      largest = std::max(largest, std::abs(static_cast<double>(a.gradient()[i])));
    }
    return most / largest;
  }
};

// Broken: a run in parts would train on another gradient than on the whole batch at once: a sum
// instead of a mean, or a part alone.
TEST_F(TrainerOptionsTest, PartsGiveTheGradientOfTheWholeBatch) {
  for (const uint32_t parts : {2, 3, 4, 6}) {  // 4: parts of unequal size
    v1::RunSpec spec = TinySpec();
    const auto whole = Make(spec);
    spec.mutable_inner()->set_accumulation(parts);
    const auto parted = Make(spec);
    EXPECT_NEAR(Step(*parted, 0), Step(*whole, 0), 1e-5) << parts;
    EXPECT_LT(Difference(*whole, *parted), 1e-5) << parts;
  }
}

// Broken: recomputing would change what is trained.
TEST_F(TrainerOptionsTest, CheckpointingGivesTheSameGradients) {
  for (const double dropout : {0.0, 0.3}) {
    v1::RunSpec spec = TinySpec();
    spec.mutable_model()->set_dropout(dropout);
    spec.mutable_inner()->set_accumulation(2);
    const auto plain = Make(spec);
    spec.mutable_inner()->set_checkpointing(true);
    const auto again = Make(spec);
    for (uint64_t step = 0; step < 3; ++step) {
      EXPECT_NEAR(Step(*again, step), Step(*plain, step), 1e-5) << dropout;
      EXPECT_LT(Difference(*plain, *again), 1e-5) << dropout;
    }
  }
}

// Broken: bf16 would be fp32 under another name, or too coarse to learn; evaluation would depend on
// it.
TEST_F(TrainerOptionsTest, Bf16LearnsAndIsNotFp32) {
  v1::RunSpec spec = TinySpec();
  const auto full = Make(spec);
  spec.mutable_inner()->set_precision("bf16");
  const auto half = Make(spec);
  const std::vector<float> theta(full->parameters().begin(), full->parameters().end());
  EXPECT_EQ(full->Evaluate(theta, 0, 1, {})->loss_sum, half->Evaluate(theta, 0, 1, {})->loss_sum);
  const double first = Step(*full, 0);
  EXPECT_NEAR(Step(*half, 0), first, 0.02);
  const double difference = Difference(*full, *half);
  EXPECT_GT(difference, 1e-4);
  EXPECT_LT(difference, 0.05);
  double last_full = 0, last_half = 0;
  for (uint64_t step = 1; step < 60; ++step) {
    last_full = Step(*full, step);
    last_half = Step(*half, step);
  }
  EXPECT_LT(last_half, 3.5);
  EXPECT_NEAR(last_half, last_full, 0.1);
}

// Broken: Muon would not learn, or not go on after a stop as if there had been none.
TEST_F(TrainerOptionsTest, MuonLearnsAndGoesOnFromItsState) {
  v1::RunSpec spec = TinySpec();
  spec.mutable_inner()->set_optimizer("muon");
  spec.mutable_inner()->set_muon_momentum(0.95);
  const auto trainer = Make(spec);
  for (uint64_t step = 0; step < 30; ++step) Step(*trainer, step);
  const auto other = Make(spec);
  std::copy(trainer->parameters().begin(), trainer->parameters().end(),
            other->parameters().begin());
  ASSERT_TRUE(GiveOptimizer(*trainer, other.get()).ok());
  double last = 0;
  for (uint64_t step = 30; step < 60; ++step) {
    last = Step(*trainer, step);
    EXPECT_EQ(Step(*other, step), last) << step;
  }
  EXPECT_LT(last, 3.5);
}

// Broken: an option that no worker can follow would be trained on silently otherwise.
TEST_F(TrainerOptionsTest, NamesWhatItDoesNotKnow) {
  v1::RunSpec spec = TinySpec();
  spec.mutable_inner()->set_precision("fp8");
  EXPECT_EQ(Trainer::Make(spec, *corpus_).status().message(),
            "inner.precision \"fp8\" is not known; known: fp32, bf16");
  spec = TinySpec();
  spec.mutable_inner()->set_schedule("linear");
  EXPECT_EQ(Trainer::Make(spec, *corpus_).status().message(),
            "inner.schedule \"linear\" is not known; known: cosine, wsd, constant");
}

}  // namespace
}  // namespace atolld
