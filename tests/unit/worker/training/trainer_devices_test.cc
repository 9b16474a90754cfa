// Training on several devices at once. They are copies on the CPU: what differs on GPUs is where
// libtorch puts the tensors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "tests/unit/worker/model/models.h"
#include "tests/unit/worker/training/trainer_fixture.h"
#include "worker/base/manifest.h"
#include "worker/hub/safetensors.h"
#include "worker/training/inner_optimizer.h"
#include "worker/training/trainer.h"

namespace atolld {
namespace {

class TrainerDevicesTest : public TrainerFixture {
 protected:
  std::unique_ptr<Trainer> MakeOn(size_t devices, const v1::RunSpec& spec) {
    return Make(spec, std::vector<std::string>(devices, "cpu"));
  }

  static std::vector<float> Copy(absl::Span<const float> values) {
    return {values.begin(), values.end()};
  }

  // Values that no initialisation has, so that no gradient is zero.
  static void Scramble(absl::Span<float> parameters) {
    Lcg lcg;
    for (float& value : parameters) {
      value = (static_cast<float>(lcg.Next() % 2001) - 1000) / 5000;
    }
  }

  // The length of the difference of both over that of the first.
  static double Difference(absl::Span<const float> a, absl::Span<const float> b) {
    double difference = 0, length = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      difference += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
      length += std::pow(static_cast<double>(a[i]), 2);
    }
    return std::sqrt(difference / length);
  }

  // Adapters of a small Llama, the base of which is written here.
  v1::ModelSpec Adapters() {
    v1::ModelSpec model = TinyLlama();
    const v1::Manifest manifest = *MakeManifest(model);
    std::vector<float> base(manifest.elements());
    Scramble(absl::MakeSpan(base));
    const std::string path = folder_ / "base.safetensors";
    EXPECT_TRUE(WriteSafetensors(path, manifest, base).ok());
    model.set_lora_rank(3);
    model.set_lora_alpha(6);
    model.add_lora_targets("q_proj");
    model.add_lora_targets("v_proj");
    model.set_base_path(path);
    model.set_base_digest(*FileDigest(path));
    return model;
  }

  const TemporaryFolder folder_;
};

// Broken: who adds a GPU would train on another gradient than who has one.
TEST_F(TrainerDevicesTest, GiveTheGradientOfOne) {
  for (const v1::ModelSpec& model : {TinySpec().model(), TinyGpt2(), TinyLlama(), Adapters()}) {
    for (const uint32_t accumulation : {1, 2}) {
      v1::RunSpec spec = TinySpec();
      *spec.mutable_model() = model;
      spec.mutable_inner()->set_batch(7);
      spec.mutable_inner()->set_accumulation(accumulation);
      const auto one = MakeOn(1, spec);
      Scramble(one->parameters());
      const double loss = Step(*one, 0, 7);
      for (const size_t devices : {2, 3, 7}) {
        const auto several = MakeOn(devices, spec);
        Scramble(several->parameters());
        EXPECT_NEAR(Step(*several, 0, 7), loss, 1e-5);
        EXPECT_LT(Difference(one->gradient(), several->gradient()), 1e-6)
            << model.kind() << " " << model.lora_rank() << " on " << devices;
      }
    }
  }
}

// Broken: which thread is first would decide what is trained, and no failure could be replayed.
TEST_F(TrainerDevicesTest, TrainToTheSameBitsEachTime) {
  for (const bool rich : {false, true}) {
    v1::RunSpec spec = TinySpec();
    spec.mutable_inner()->set_batch(8);
    if (rich) {
      spec.mutable_model()->set_dropout(0.2);
      spec.mutable_inner()->set_precision("bf16");
      spec.mutable_inner()->set_accumulation(2);
      spec.mutable_inner()->set_checkpointing(true);
    }
    const auto a = MakeOn(3, spec), b = MakeOn(3, spec);
    for (uint64_t step = 0; step < 20; ++step) {
      ASSERT_EQ(Step(*a, step, 8), Step(*b, step, 8)) << rich << " " << step;
    }
    EXPECT_EQ(Copy(a->parameters()), Copy(b->parameters())) << rich;
  }
}

// Broken: blocks that are computed again would drop other values than the first time.
TEST_F(TrainerDevicesTest, CheckpointingDropsTheSameValues) {
  v1::RunSpec spec = TinySpec();
  spec.mutable_model()->set_dropout(0.3);
  const auto plain = MakeOn(2, spec);
  spec.mutable_inner()->set_checkpointing(true);
  const auto again = MakeOn(2, spec);
  for (uint64_t step = 0; step < 3; ++step) {
    EXPECT_NEAR(Step(*again, step, 4), Step(*plain, step, 4), 1e-5);
    EXPECT_LT(Difference(plain->gradient(), again->gradient()), 1e-5);
  }
}

// Broken: the model would learn less on several devices.
TEST_F(TrainerDevicesTest, Learn) {
  const auto one = MakeOn(1, TinySpec()), two = MakeOn(2, TinySpec());
  double last_one = 0, last_two = 0;
  for (uint64_t step = 0; step < 60; ++step) {
    last_one = Step(*one, step, 4);
    last_two = Step(*two, step, 4);
  }
  EXPECT_LT(last_two, 3.5);
  EXPECT_NEAR(last_two, last_one, 0.05);
}

// Broken: peers with and without several devices would report other losses of the same parameters.
TEST_F(TrainerDevicesTest, EvaluateToTheSameBitsAsOne) {
  const auto text = TrainingData::FromText(SomeText(70000), 0.2);  // four batches of windows
  ASSERT_TRUE(text.ok());
  const v1::RunSpec spec = TinySpec();
  auto one = Trainer::Make(spec, **text);
  ASSERT_TRUE(one.ok() && (*one)->Initialise().ok());
  const std::vector<float> theta = Copy((*one)->parameters());
  const auto expected = (*one)->Evaluate(theta, 0, 1, {});
  ASSERT_TRUE(expected.ok());
  EXPECT_GT(expected->tokens, 3u * 4096);
  for (const size_t devices : {2, 3, 4}) {
    auto several = Trainer::Make(spec, **text, std::vector<std::string>(devices, "cpu"));
    ASSERT_TRUE(several.ok()) << several.status();
    const auto found = (*several)->Evaluate(theta, 0, 1, {});
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(found->tokens, expected->tokens) << devices;
    EXPECT_EQ(found->loss_sum, expected->loss_sum) << devices;
  }
}

// Broken: a peer that is stopped, or given another GPU, would begin its optimiser anew.
TEST_F(TrainerDevicesTest, KeepTheOptimisersStateAsOneDoes) {
  const auto before = MakeOn(2, TinySpec());
  for (uint64_t step = 0; step < 10; ++step) Step(*before, step, 4);
  std::vector<std::unique_ptr<Trainer>> after;
  for (const size_t devices : {2, 1}) {
    after.push_back(MakeOn(devices, TinySpec()));
    std::copy(before->parameters().begin(), before->parameters().end(),
              after.back()->parameters().begin());
    ASSERT_TRUE(after.back()->PushParameters().ok());
    ASSERT_TRUE(GiveOptimizer(*before, after.back().get()).ok());
  }
  for (uint64_t step = 10; step < 15; ++step) {
    const double loss = Step(*before, step, 4);
    EXPECT_EQ(Step(*after[0], step, 4), loss) << step;
    EXPECT_NEAR(Step(*after[1], step, 4), loss, 1e-3) << step;
  }
  EXPECT_EQ(Copy(after[0]->parameters()), Copy(before->parameters()));
}

// Broken: a device without a sequence would fail somewhere in libtorch, or train on nothing.
TEST_F(TrainerDevicesTest, ASequenceForEachIsAskedFor) {
  v1::RunSpec spec = TinySpec();
  const std::vector<std::string> three(3, "cpu");
  spec.mutable_inner()->set_batch(2);
  const absl::Status few = Trainer::Make(spec, *corpus_, three).status();
  EXPECT_TRUE(absl::IsInvalidArgument(few));
  EXPECT_EQ(
      few.message(),
      "[worker] device names 3 devices (cpu,cpu,cpu), and a step of the run has inner.batch = "
      "2 sequences; name that many devices at most");
  spec.mutable_inner()->set_batch(3);
  const auto trainer = Make(spec, three);
  EXPECT_EQ(trainer->Step(5, {1, 2}).status().message(),
            "step 5: 2 samples; each of 3 devices needs one");
}

}  // namespace
}  // namespace atolld
