#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "tests/unit/worker/model/models.h"
#include "tests/unit/worker/training/fixtures.h"
#include "worker/base/file_io.h"
#include "worker/base/manifest.h"
#include "worker/hub/hub_folder.h"
#include "worker/hub/safetensors.h"
#include "worker/model/architectures.h"
#include "worker/training/trainer.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

class LoraTest : public ::testing::Test {
 protected:
  // A base with random values in a file, and adapters of `targets` beside it.
  v1::ModelSpec Make(const v1::ModelSpec& base, const std::vector<std::string>& targets) {
    base_ = *MakeModel(base);
    flat_ = at::empty({static_cast<int64_t>(base_->manifest().elements())});
    base_->Initialise(flat_, 5);
    EXPECT_TRUE(WriteSafetensors(path_, base_->manifest(), Values(flat_)).ok());
    v1::ModelSpec model = base;
    model.set_lora_rank(3);
    model.set_lora_alpha(6);
    for (const std::string& target : targets) model.add_lora_targets(target);
    model.set_base_path(path_);
    model.set_base_digest(*FileDigest(path_));
    return model;
  }

  static absl::Span<const float> Values(const at::Tensor& flat) {
    return absl::MakeConstSpan(flat.data_ptr<float>(), static_cast<size_t>(flat.numel()));
  }

  const TemporaryFolder folder_;
  const std::string path_ = folder_ / "base.safetensors";
  std::unique_ptr<Model> base_;
  at::Tensor flat_;
};

// Broken: adapters would train towards another model than the one that PEFT makes of them.
TEST_F(LoraTest, IsTheBaseWithTheProductAdded) {
  // One of them is a Qwen, whose adapted matrices have biases. The loss of the mixture has its
  // router's part.
  const struct {
    v1::ModelSpec kind;
    const char* target;
    size_t adapters;
  } cases[] = {{TinyLlama(), "v_proj", 2},
               {TinyGpt2(), "c_attn", 2},
               {TinyDecoders()[2], "v_proj", 2},
               {TinyMixtures()[0], "w1", 8}};
  for (const auto& one : cases) {
    const v1::ModelSpec spec = Make(one.kind, {one.target});
    const auto lora = MakeModel(spec);
    ASSERT_TRUE(lora.ok()) << lora.status();
    const auto elements = static_cast<int64_t>((*lora)->manifest().elements());
    const at::Tensor adapters = at::empty({elements}), gradient = at::zeros({elements});
    (*lora)->Initialise(adapters, 1);
    const at::Tensor tokens = at::arange(16, at::kLong).view({1, 16}), targets = tokens * 3 + 1;
    EXPECT_TRUE(at::allclose((*lora)->Logits((*lora)->Bind(adapters), tokens, 0),
                             base_->Logits(base_->Bind(flat_), tokens, 0)));
    at::manual_seed(3);
    adapters.normal_(0, 0.3);

    const ModelParameters bound = (*lora)->BindTrainable(adapters, gradient);
    const at::Tensor loss = (*lora)->Loss(bound, tokens, targets, 0);
    loss.backward();
    // The same with the products added by hand, and the rule of the chain.
    const at::Tensor merged = flat_.clone(), merged_gradient = at::zeros_like(flat_);
    const ModelParameters whole = base_->BindTrainable(merged, merged_gradient);
    const ModelParameters ours = (*lora)->Bind(adapters), slopes = (*lora)->Bind(gradient);
    std::vector<size_t> places;
    for (size_t i = 0; i < whole.size(); ++i) {
      const v1::Tensor& tensor = base_->manifest().tensors(static_cast<int>(i));
      if (!IsAdapted(spec, tensor)) continue;
      const at::NoGradGuard no_grad;
      const size_t a = 2 * places.size();
      whole[i].add_(2 * at::mm(ours[a + 1], ours[a]));
      places.push_back(i);
    }
    ASSERT_EQ(places.size(), one.adapters);
    const at::Tensor expected = base_->Loss(whole, tokens, targets, 0);
    EXPECT_NEAR(loss.item<double>(), expected.item<double>(), 1e-5);
    expected.backward();
    for (size_t j = 0; j < places.size(); ++j) {
      const at::Tensor slope = whole[places[j]].grad();
      EXPECT_TRUE(at::allclose(slopes[2 * j], 2 * at::mm(ours[2 * j + 1].t(), slope), 1e-4, 1e-6));
      EXPECT_TRUE(at::allclose(slopes[2 * j + 1], 2 * at::mm(slope, ours[2 * j].t()), 1e-4, 1e-6));
    }
  }
}

// Broken: peers would average adapters of different bases.
TEST_F(LoraTest, AnotherBaseIsRefusedInOneLine) {
  v1::ModelSpec spec = Make(TinyLlama(), {"q_proj"});
  spec.set_base_digest(std::string(32, '\x11'));
  absl::Status status = MakeModel(spec).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("the run's adapters are of " + std::string(64, '1')));
  spec.set_base_path("");
  status = MakeModel(spec).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("name the base's file on this machine"));
}

// Broken: the frozen base would be trained, sent and logged, which is what adapters are there to
// avoid.
TEST_F(LoraTest, OnlyAdaptersAreTrained) {
  v1::RunSpec spec = TinySpec();
  *spec.mutable_model() = Make(TinyLlama(), {"q_proj", "v_proj"});
  const auto corpus = *TrainingData::FromText(SomeText(5000), 0.2);
  const auto trainer = Trainer::Make(spec, *corpus);
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  ASSERT_TRUE((*trainer)->Initialise().ok());
  const uint64_t adapters = 2 * 3 * ((16 + 16) + (8 + 16));  // layers, rank, A and B of q and v
  EXPECT_EQ((*trainer)->parameters().size(), adapters);
  double first = 0, last = 0;
  for (uint64_t step = 0; step < 40; ++step) {
    const std::vector<uint64_t> samples = {step * 4, step * 4 + 1, step * 4 + 2, step * 4 + 3};
    const auto loss = (*trainer)->Step(step, samples);
    ASSERT_TRUE(loss.ok()) << loss.status();
    (step == 0 ? first : last) = *loss;
  }
  EXPECT_LT(last, first - 0.001);
  EXPECT_EQ(*FileDigest(path_), spec.model().base_digest());

  // What PEFT is given: the adapters, under the names that it looks for.
  ASSERT_TRUE(WriteAdapterFolder(folder_ / "peft", spec.model(), (*trainer)->parameters(), "base",
                                 DType::kF32)
                  .ok());
  const auto file = SafetensorsFile::Open(folder_ / "peft/adapter_model.safetensors");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->tensors().size(), 8u);
  EXPECT_EQ(
      (*file)->tensors().count("base_model.model.model.layers.1.self_attn.v_proj.lora_B.weight"),
      1u);
  const std::string config = *ReadWholeFile(folder_ / "peft/adapter_config.json");
  EXPECT_THAT(config, HasSubstr("\"r\": 3"));
  EXPECT_THAT(config, HasSubstr("\"fan_in_fan_out\": false"));
}

// Broken: adapters in slices would be another model than whole ones, slices of others would be
// trained, or an export of some ranks would not be what they do in the run.
TEST_F(LoraTest, SlicesTogetherAreOneAdapter) {
  v1::ModelSpec whole = Make(TinyLlama(), {"q_proj", "v_proj"});
  whole.set_lora_rank(6);
  whole.set_lora_alpha(12);
  v1::RunSpec spec = TinySpec();
  *spec.mutable_model() = whole;
  spec.mutable_model()->set_lora_slice(2);
  spec.mutable_experts()->add_tensors("*.slice#*");
  spec.mutable_inner()->set_weight_decay(0.1);
  const auto corpus = *TrainingData::FromText(SomeText(5000), 0.2);
  const auto trainer = Trainer::Make(spec, *corpus);
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  ASSERT_TRUE((*trainer)->Initialise().ok());
  const std::vector<float> before((*trainer)->parameters().begin(), (*trainer)->parameters().end());
  v1::TrainSteps train;
  for (const v1::Tensor& tensor : (*trainer)->manifest().tensors()) {
    if (tensor.name().find(".slice0.") != std::string::npos) continue;
    v1::ValueRange& range = *train.add_frozen();
    range.set_first(tensor.offset());
    range.set_count(TensorElements(tensor));
  }
  ASSERT_TRUE((*trainer)->Freeze(train).ok());
  for (uint64_t step = 0; step < 10; ++step) {
    const std::vector<uint64_t> samples = {step * 4, step * 4 + 1, step * 4 + 2, step * 4 + 3};
    ASSERT_TRUE((*trainer)->Step(step, samples).ok());
  }
  const absl::Span<const float> after = (*trainer)->parameters();
  for (const v1::Tensor& tensor : (*trainer)->manifest().tensors()) {
    const auto first = static_cast<std::ptrdiff_t>(tensor.offset());
    const bool moved =
        !std::equal(after.begin() + first,
                    after.begin() + first + static_cast<std::ptrdiff_t>(TensorElements(tensor)),
                    before.begin() + first);
    EXPECT_EQ(moved, tensor.name().find(".slice0.") != std::string::npos) << tensor.name();
  }
  const auto loss = (*trainer)->Evaluate(after, 0, 1, nullptr);
  ASSERT_TRUE(loss.ok()) << loss.status();

  // All ranks, and the first two, since the others have learnt nothing.
  for (const uint32_t rank : {6u, 2u}) {
    const std::string folder = folder_ / absl::StrCat("ranks-", rank);
    ASSERT_TRUE(
        WriteAdapterFolder(folder, spec.model(), after, "base", DType::kF32, rank % 6).ok());
    const std::string config = *ReadWholeFile(folder + "/adapter_config.json");
    EXPECT_THAT(config, HasSubstr(absl::StrCat("\"r\": ", rank, ",")));
    EXPECT_THAT(config, HasSubstr(absl::StrCat("\"lora_alpha\": ", 2 * rank, ".0")));
    v1::RunSpec joined = spec;
    *joined.mutable_model() = whole;
    joined.mutable_model()->set_lora_rank(rank);
    joined.mutable_model()->set_lora_alpha(2 * rank);
    joined.clear_experts();
    const auto read = Trainer::Make(joined, *corpus);
    ASSERT_TRUE(read.ok()) << read.status();
    v1::Manifest named = (*read)->manifest();
    for (v1::Tensor& tensor : *named.mutable_tensors()) {
      tensor.set_name("base_model.model." + tensor.name());
    }
    std::vector<float> values(named.elements());
    ASSERT_TRUE(
        LoadParameters(folder + "/adapter_model.safetensors", named, absl::MakeSpan(values)).ok());
    const auto same = (*read)->Evaluate(values, 0, 1, nullptr);
    ASSERT_TRUE(same.ok()) << same.status();
    EXPECT_NEAR(same->loss_sum, loss->loss_sum, 1e-3) << rank;
  }
  EXPECT_THAT(
      std::string(WriteAdapterFolder(folder_ / "no", spec.model(), after, "base", DType::kF32, 3)
                      .message()),
      HasSubstr("--lora-rank is 3; it must be a multiple of [model] lora_slice (2)"));
}

// Broken: a run that begins with an imported model would begin with another one.
TEST_F(LoraTest, ARunGoesOnFromAnImportedFolder) {
  const auto corpus = *TrainingData::FromText(SomeText(5000), 0.2);
  for (const v1::ModelSpec& model : {TinyGpt2(), TinyLlama(), TinySpec().model()}) {
    v1::RunSpec spec = TinySpec();
    *spec.mutable_model() = model;
    const auto trained = *Trainer::Make(spec, *corpus);
    ASSERT_TRUE(trained->Initialise().ok());
    for (uint64_t step = 0; step < 5; ++step) {
      const std::vector<uint64_t> samples = {step * 4, step * 4 + 1, step * 4 + 2, step * 4 + 3};
      ASSERT_TRUE(trained->Step(step, samples).ok());
    }
    const auto before = trained->Evaluate(trained->parameters(), 0, 1, nullptr);
    ASSERT_TRUE(WriteHubFolder(folder_ / "hub", model, trained->parameters(), {}).ok());

    const auto imported = ReadHubFolder(folder_ / "hub");
    ASSERT_TRUE(imported.ok()) << imported.status();
    ASSERT_TRUE(WriteSafetensors(path_, imported->manifest, imported->parameters).ok());
    spec.mutable_model()->set_from_file(true);
    const auto next = *Trainer::Make(spec, *corpus);
    EXPECT_THAT(std::string(next->Initialise().message()), HasSubstr("[model] initial"));
    spec.mutable_model()->set_initial_path(path_);
    const auto resumed = *Trainer::Make(spec, *corpus);
    ASSERT_TRUE(resumed->Initialise().ok());
    const auto after = resumed->Evaluate(resumed->parameters(), 0, 1, nullptr);
    ASSERT_TRUE(before.ok() && after.ok());
    EXPECT_EQ(before->loss_sum, after->loss_sum);
  }
}

}  // namespace
}  // namespace atolld
