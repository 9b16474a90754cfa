#include "worker/training/trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <numeric>
#include <vector>

#include "tests/unit/worker/training/trainer_fixture.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

class TrainerTest : public TrainerFixture {
 protected:
  static double Step(Trainer& trainer, uint64_t step) {
    return TrainerFixture::Step(trainer, step, 4);
  }

  static std::vector<float> Parameters(Trainer& trainer) {
    return {trainer.parameters().begin(), trainer.parameters().end()};
  }
};

// Broken: the inner loop would not learn.
TEST_F(TrainerTest, TheLossFalls) {
  const auto trainer = Make(TinySpec());
  const double first = Step(*trainer, 0);
  EXPECT_NEAR(first, 5.545, 0.1);  // ln 256: nothing is known yet
  double last = 0;
  for (uint64_t step = 1; step < 60; ++step) last = Step(*trainer, step);
  EXPECT_LT(last, 3.5);
}

// Broken: the same lease would train to another result each time, and no failure could be replayed.
TEST_F(TrainerTest, StepsAreDeterministic) {
  for (const double dropout : {0.0, 0.2}) {
    v1::RunSpec spec = TinySpec();
    spec.mutable_model()->set_dropout(dropout);
    const auto a = Make(spec), b = Make(spec);
    for (uint64_t step = 0; step < 5; ++step) EXPECT_EQ(Step(*a, step), Step(*b, step));
    EXPECT_EQ(Parameters(*a), Parameters(*b));
  }
}

// Broken: peers that evaluate shares would report another loss than one that evaluates all.
TEST_F(TrainerTest, SharesSumToTheWhole) {
  for (const uint64_t tokens : {0, 100, 1}) {
    v1::RunSpec spec = TinySpec();
    spec.mutable_evaluation()->set_tokens(tokens);
    const auto trainer = Make(spec);
    const std::vector<float> theta = Parameters(*trainer);
    const auto whole = trainer->Evaluate(theta, 0, 1, {});
    ASSERT_TRUE(whole.ok()) << whole.status();
    EXPECT_EQ(whole->tokens, tokens == 0 ? 992u : tokens == 100 ? 96u : 16u);
    for (const uint32_t shares : {2, 3, 7}) {
      EvaluationSum sum;
      for (uint32_t share = 0; share < shares; ++share) {
        const auto part = trainer->Evaluate(theta, share, shares, {});
        ASSERT_TRUE(part.ok());
        sum.loss_sum += part->loss_sum;
        sum.tokens += part->tokens;
      }
      EXPECT_EQ(sum.tokens, whole->tokens);
      EXPECT_NEAR(sum.loss_sum / whole->loss_sum, 1.0, 1e-6);
    }
  }
}

// Broken: evaluating the replica would change what the worker is training, or measure the wrong
// parameters.
TEST_F(TrainerTest, EvaluationUsesThetaAndLeavesTheRestAlone) {
  v1::RunSpec spec = TinySpec();
  spec.mutable_model()->set_dropout(0.5);
  const auto trainer = Make(spec);
  const std::vector<float> theta = Parameters(*trainer);
  const auto before = trainer->Evaluate(theta, 0, 1, {});
  Step(*trainer, 0);
  const std::vector<float> own = Parameters(*trainer);
  const auto after = trainer->Evaluate(theta, 0, 1, {});
  EXPECT_EQ(before->loss_sum, after->loss_sum);
  EXPECT_NE(trainer->Evaluate(own, 0, 1, {})->loss_sum, after->loss_sum);
  EXPECT_EQ(Parameters(*trainer), own);
}

// Broken: a stop would wait until a long evaluation is done.
TEST_F(TrainerTest, EvaluationStopsWhenAsked) {
  const auto trainer = Make(TinySpec());
  const std::vector<float> theta = Parameters(*trainer);
  EXPECT_TRUE(absl::IsCancelled(trainer->Evaluate(theta, 0, 1, [] { return true; }).status()));
}

// Broken: a diverged run would go on with parameters that are not numbers, or not say at which step
// it diverged.
TEST_F(TrainerTest, ALossThatIsNotFiniteIsNamed) {
  const auto trainer = Make(TinySpec());
  trainer->parameters()[7] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<uint64_t> samples = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  const auto loss = trainer->Step(12, samples);
  EXPECT_TRUE(absl::IsFailedPrecondition(loss.status()));
  EXPECT_THAT(std::string(loss.status().message()), HasSubstr("step 12: the loss is nan"));
}

// Broken: a volunteer with too small a corpus would see libtorch's words instead of ours.
TEST_F(TrainerTest, NamesWhatIsWrong) {
  const auto small = TrainingData::FromText(SomeText(40), 0.5);
  v1::RunSpec spec = TinySpec();
  spec.mutable_model()->set_context(32);
  EXPECT_THAT(std::string(Trainer::Make(spec, **small).status().message()),
              HasSubstr("the validation split has 20 tokens; one sequence needs 33"));
  spec.mutable_data()->set_validation_fraction(0);
  const auto train_only = TrainingData::FromText(SomeText(32), 0);
  EXPECT_EQ(Trainer::Make(spec, **train_only).status().message(),
            "data: the training split has 32 tokens; one sequence needs 33");
  spec = TinySpec();
  spec.mutable_model()->set_vocabulary(65);
  EXPECT_THAT(std::string(Trainer::Make(spec, *corpus_).status().message()),
              HasSubstr("model.vocabulary is 65; tokenizer \"bytes\" needs 256"));
}

}  // namespace
}  // namespace atolld
