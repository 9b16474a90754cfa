// Training a mixture of which some experts are those of other peers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/unit/worker/model/models.h"
#include "tests/unit/worker/training/trainer_fixture.h"
#include "worker/base/manifest.h"
#include "worker/training/gradient_terms.h"

namespace atolld {
namespace {

class FrozenExpertsTest : public TrainerFixture {
 protected:
  static v1::RunSpec SpecOf(const v1::ModelSpec& model) {
    v1::RunSpec spec = TinySpec();
    *spec.mutable_model() = model;
    spec.mutable_inner()->set_gradient_clip(0);
    return spec;
  }

  static bool IsFrozen(const v1::Tensor& tensor) {
    return absl::StrContains(tensor.name(), ".experts.1.") ||
           absl::StrContains(tensor.name(), ".experts.3.");
  }

  // Freezes experts 1 and 3 of all layers.
  static v1::TrainSteps Freezing(const v1::Manifest& manifest) {
    v1::TrainSteps train;
    for (const v1::Tensor& tensor : manifest.tensors()) {
      if (!IsFrozen(tensor)) continue;
      v1::ValueRange& range = *train.add_frozen();
      range.set_first(tensor.offset());
      range.set_count(TensorElements(tensor));
    }
    EXPECT_GT(train.frozen_size(), 5);
    return train;
  }

  // Initial matrices are so small that experts get hardly any gradient: makes them larger.
  static void Enlarge(Trainer& trainer) {
    for (const v1::Tensor& tensor : trainer.manifest().tensors()) {
      if (tensor.shape_size() < 2) continue;
      for (float& value : trainer.parameters().subspan(tensor.offset(), TensorElements(tensor))) {
        value *= 10;
      }
    }
  }

  // The values of one tensor in the flat vector.
  static std::vector<float> Part(Trainer& trainer, const v1::Tensor& tensor) {
    const auto part = trainer.parameters().subspan(tensor.offset(), TensorElements(tensor));
    return {part.begin(), part.end()};
  }
};

// Broken: a peer would move experts that it does not own, by gradient, momentum or weight decay; or
// the tensors that it does own would learn something else beside them.
TEST_F(FrozenExpertsTest, TheyStayAndTheOthersMoveAsIfTheirGradientWereIgnored) {
  for (const char* optimizer : {"adamw", "muon", "sgd"}) {
    for (const v1::ModelSpec& model : TinyMixtures()) {
      for (const size_t devices : {1, 2}) {
        v1::RunSpec spec = SpecOf(model);
        SCOPED_TRACE(absl::StrCat(optimizer, ", ", model.decoder().family(), ", ", devices));
        spec.mutable_inner()->set_optimizer(optimizer);
        spec.mutable_inner()->set_muon_momentum(0.9);
        spec.mutable_inner()->set_proximal(devices == 2 ? 0.1 : 0);
        spec.mutable_inner()->set_checkpointing(devices == 2);
        const std::vector<std::string> names(devices, "cpu");
        const auto whole = Make(spec, names), part = Make(spec, names);
        Enlarge(*whole);
        Enlarge(*part);
        const v1::Manifest& manifest = part->manifest();
        ASSERT_TRUE(part->Freeze(Freezing(manifest)).ok());
        const std::vector<float> first(part->parameters().begin(), part->parameters().end());
        for (const auto* trainer : {&whole, &part}) (*trainer)->terms().SetBase(first);
        for (uint64_t step = 0; step < 3; ++step) {
          EXPECT_EQ(Step(*whole, step, 4), Step(*part, step, 4));
          for (const v1::Tensor& tensor : manifest.tensors()) {
            if (IsFrozen(tensor)) {  // what has moved is put back: no step sees it
              std::copy_n(first.begin() + static_cast<int64_t>(tensor.offset()),
                          TensorElements(tensor),
                          whole->parameters().subspan(tensor.offset()).begin());
            }
            ASSERT_EQ(Part(*whole, tensor), Part(*part, tensor)) << tensor.name();
          }
        }
        EXPECT_NE(first, std::vector<float>(part->parameters().begin(), part->parameters().end()));
      }
    }
  }
}

// Broken: experts that a peer does not own would take the memory of a gradient and of moments.
TEST_F(FrozenExpertsTest, TheyTakeNoMemoryOfGradientAndState) {
  for (const bool owned : {false, true}) {
    v1::RunSpec spec = SpecOf(TinyMixtures()[0]);
    if (owned) spec.mutable_experts()->add_tensors("*.experts.#.*");
    const auto trainer = Make(spec);
    const uint64_t all = trainer->manifest().elements();
    // Where peers own experts, nothing is held before it is said which.
    EXPECT_EQ(trainer->gradient().size(), owned ? 0 : all);
    for (const auto& moments : trainer->optimizer().state().buffers) {
      EXPECT_EQ(moments.size(), owned ? 0 : all);
    }
    const v1::TrainSteps train = Freezing(trainer->manifest());
    uint64_t frozen = 0;
    for (const v1::ValueRange& range : train.frozen()) frozen += range.count();
    ASSERT_TRUE(trainer->Freeze(train).ok());
    Step(*trainer, 0, 4);
    EXPECT_EQ(trainer->gradient().size(), all - frozen);
    EXPECT_THAT(trainer->gradient(), ::testing::Contains(::testing::Ne(0.0f)));
    ASSERT_EQ(trainer->optimizer().state().buffers.size(), 2u);
    for (const auto& moments : trainer->optimizer().state().buffers) {
      EXPECT_EQ(moments.size(), all - frozen);
    }
  }
}

// Broken: the gradient of experts that do not move would make the others' steps shorter.
TEST_F(FrozenExpertsTest, OnlyWhatIsTrainedCountsForTheClip) {
  constexpr double kClip = 0.1, kRate = 0.5;
  v1::RunSpec spec = SpecOf(TinyMixtures()[1]);
  spec.mutable_inner()->set_optimizer("sgd");
  spec.mutable_inner()->set_gradient_clip(kClip);
  spec.mutable_inner()->set_learning_rate(kRate);
  spec.mutable_inner()->set_schedule("constant");
  const auto trainer = Make(spec), whole = Make(spec);
  Enlarge(*trainer);
  Enlarge(*whole);
  Step(*whole, 0, 4);
  // The experts' share is small in a model that has learnt nothing, so the tensor with the greatest
  // gradient is frozen beside them.
  std::map<std::string, double> squares_of;
  for (const v1::Tensor& tensor : whole->manifest().tensors()) {
    for (const float g : whole->gradient().subspan(tensor.offset(), TensorElements(tensor))) {
      squares_of[tensor.name()] += static_cast<double>(g) * g;
    }
  }
  const auto greatest =
      std::max_element(squares_of.begin(), squares_of.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  double all = 0, counted = 0;
  v1::TrainSteps steps;
  for (const v1::Tensor& tensor : whole->manifest().tensors()) {
    all += squares_of[tensor.name()];
    if (!IsFrozen(tensor) && tensor.name() != greatest->first) {
      counted += squares_of[tensor.name()];
      continue;
    }
    v1::ValueRange* const frozen = steps.add_frozen();
    frozen->set_first(tensor.offset());
    frozen->set_count(TensorElements(tensor));
  }
  ASSERT_GT(std::sqrt(counted), kClip);
  ASSERT_LT(counted, 0.9 * all) << "the test would not see a difference";
  ASSERT_TRUE(trainer->Freeze(steps).ok());
  const std::vector<float> before(trainer->parameters().begin(), trainer->parameters().end());
  Step(*trainer, 0, 4);
  double squares = 0;
  for (size_t i = 0; i < before.size(); ++i) {
    const double moved = static_cast<double>(trainer->parameters()[i] - before[i]);
    squares += moved * moved;
  }
  EXPECT_NEAR(std::sqrt(squares), kClip * kRate, 1e-3 * kClip * kRate);
}

// Broken: an expert that a peer gets to own would be trained with moments of long ago, or with the
// bias correction of moments that have seen many steps; or its other tensors would lose theirs.
TEST_F(FrozenExpertsTest, WhatIsTrainedAgainBeginsAnew) {
  v1::RunSpec spec = SpecOf(TinyMixtures()[0]);
  spec.mutable_inner()->set_weight_decay(0);
  spec.mutable_inner()->set_schedule("constant");
  const auto trainer = Make(spec);
  Enlarge(*trainer);
  const v1::Manifest manifest = trainer->manifest();
  const v1::TrainSteps frozen = Freezing(manifest);
  for (uint64_t step = 0; step < 3; ++step) Step(*trainer, step, 4);
  const auto moments_of = [&](const v1::Tensor& tensor) {  // where all are trained
    const auto part =
        trainer->optimizer().state().buffers[0].subspan(tensor.offset(), TensorElements(tensor));
    return std::vector<float>(part.begin(), part.end());
  };
  std::vector<std::vector<float>> kept;
  for (const v1::Tensor& tensor : manifest.tensors()) kept.push_back(moments_of(tensor));
  ASSERT_TRUE(trainer->Freeze(frozen).ok());
  ASSERT_TRUE(trainer->Freeze(v1::TrainSteps()).ok());
  EXPECT_EQ(*trainer->optimizer().state().steps, 3u);
  const std::vector<float> before(trainer->parameters().begin(), trainer->parameters().end());
  for (int i = 0; i < manifest.tensors_size(); ++i) {
    const v1::Tensor& tensor = manifest.tensors(i);
    const auto number = static_cast<size_t>(i);
    EXPECT_EQ(trainer->optimizer().state().began[number], IsFrozen(tensor) ? 3u : 0u);
    const std::vector<float> zeros(TensorElements(tensor));
    EXPECT_EQ(moments_of(tensor), IsFrozen(tensor) ? zeros : kept[number]) << tensor.name();
  }
  Step(*trainer, 3, 4);
  // A first step of AdamW is as long as the rate wherever there is a gradient.
  const double rate = spec.inner().learning_rate();
  size_t seen = 0;
  for (const v1::Tensor& tensor : manifest.tensors()) {
    if (!IsFrozen(tensor)) continue;
    for (uint64_t i = tensor.offset(); i < tensor.offset() + TensorElements(tensor); ++i) {
      if (std::abs(trainer->gradient()[i]) < 1e-5f) continue;
      ++seen;
      ASSERT_NEAR(static_cast<double>(std::abs(trainer->parameters()[i] - before[i])), rate,
                  0.01 * rate);
    }
  }
  EXPECT_GT(seen, 100u);
}

// Broken: half of an expert would be trained.
TEST_F(FrozenExpertsTest, RangesThatAreNotTensorsAreRefused) {
  const auto trainer = Make(SpecOf(TinyMixtures()[0]));
  v1::TrainSteps train = Freezing(trainer->manifest());
  train.mutable_frozen(0)->set_count(train.frozen(0).count() - 1);
  EXPECT_THAT(std::string(trainer->Freeze(train).message()),
              ::testing::HasSubstr("a range must be whole tensors"));
  Step(*trainer, 0, 4);
  EXPECT_EQ(trainer->gradient().size(), trainer->manifest().elements());
}

}  // namespace
}  // namespace atolld
