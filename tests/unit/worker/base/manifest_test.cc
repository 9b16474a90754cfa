#include "worker/base/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "daemon/config/config_sections.h"
#include "membership/history/header.h"
#include "tests/unit/worker/model/models.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

v1::ModelSpec WithAdapters(v1::ModelSpec model, const std::vector<std::string>& targets) {
  model.set_lora_rank(3);
  model.set_lora_alpha(6);
  for (const std::string& target : targets) model.add_lora_targets(target);
  model.set_base_digest(std::string(32, 'x'));
  return model;
}

// Broken: `atoll plan` would plan for another number of bytes than the run sends, or a coordinator
// would refuse the manifest of its own run.
TEST(ManifestTest, HasAsManyParametersAsThePlanCounts) {
  v1::ModelSpec untied = TinyGpt2(), tied = TinyLlama();
  untied.set_untied(true);
  tied.set_untied(false);
  std::vector<v1::ModelSpec> models = {
      TinySpec().model(),
      TinyGpt2(),
      untied,
      TinyLlama(),
      tied,
      WithAdapters(TinySpec().model(), {"c_attn"}),
      WithAdapters(TinyGpt2(), {"c_proj", "c_fc"}),
      WithAdapters(TinyLlama(), {"q_proj", "v_proj", "down_proj"})};
  for (const v1::ModelSpec& decoder : TinyDecoders()) {
    models.push_back(decoder);
    models.push_back(WithAdapters(decoder, {"o_proj", "q_proj"}));
  }
  models.push_back(WithAdapters(TinyMixtures()[0], {"q_proj", "w2"}));
  models.push_back(WithAdapters(TinyMixtures()[1], {"gate_proj"}));
  for (const v1::ModelSpec& model : models) {
    const auto manifest = MakeManifest(model);
    ASSERT_TRUE(manifest.ok()) << manifest.status();
    EXPECT_EQ(manifest->elements(), TrainedParameters(model)) << model.DebugString();
    EXPECT_TRUE(CheckManifest(*manifest).ok()) << CheckManifest(*manifest);
  }
}

// Broken: peers would train and send what is frozen, or PEFT would not find the adapters.
TEST(ManifestTest, AdaptersAreAllThereIs) {
  const auto manifest = MakeManifest(WithAdapters(TinyLlama(), {"k_proj"}));
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  ASSERT_EQ(manifest->tensors_size(), 4);
  EXPECT_EQ(manifest->tensors(0).name(), "model.layers.0.self_attn.k_proj.lora_A.weight");
  EXPECT_THAT(manifest->tensors(0).shape(), ::testing::ElementsAre(3, 16));
  EXPECT_EQ(manifest->tensors(1).name(), "model.layers.0.self_attn.k_proj.lora_B.weight");
  EXPECT_THAT(manifest->tensors(1).shape(), ::testing::ElementsAre(8, 3));
  EXPECT_EQ(manifest->elements(), 2u * (3 * 16 + 8 * 3));
}

// Broken: peers would not find the slices that they train, or a whole adapter would have another
// layout than its slices.
TEST(ManifestTest, SlicesHaveTensorsOfTheirOwn) {
  v1::ModelSpec model = WithAdapters(TinyLlama(), {"k_proj"});
  model.set_lora_rank(4);
  model.set_lora_slice(2);
  const auto manifest = MakeManifest(model);
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  ASSERT_EQ(manifest->tensors_size(), 8);
  EXPECT_EQ(manifest->tensors(1).name(), "model.layers.0.self_attn.k_proj.lora_A.slice1.weight");
  EXPECT_THAT(manifest->tensors(1).shape(), ::testing::ElementsAre(2, 16));
  EXPECT_EQ(manifest->tensors(2).name(), "model.layers.0.self_attn.k_proj.lora_B.slice0.weight");
  EXPECT_THAT(manifest->tensors(2).shape(), ::testing::ElementsAre(8, 2));
  EXPECT_EQ(manifest->elements(), TrainedParameters(model));
  model.set_lora_slice(3);
  EXPECT_THAT(std::string(MakeManifest(model).status().message()),
              HasSubstr("model.lora_slice is 3; it must divide model.lora_rank (4)"));
  model.set_lora_slice(2);
  model.add_local("*.lora_B.*");
  EXPECT_THAT(std::string(MakeManifest(model).status().message()),
              HasSubstr("model.local must be"));
}

// Broken: other programs would not find the experts of a model that they have made.
TEST(ManifestTest, ExpertsHaveTheNamesOfTheirFamily) {
  const auto names = [](const v1::ModelSpec& model) {
    std::vector<std::string> all;
    const v1::Manifest manifest = MakeManifest(model).value();
    for (const v1::Tensor& tensor : manifest.tensors()) all.push_back(tensor.name());
    return all;
  };
  using ::testing::Contains;
  const std::vector<std::string> mixtral = names(TinyMixtures()[0]);
  EXPECT_THAT(mixtral, Contains("model.layers.0.block_sparse_moe.gate.weight"));
  EXPECT_THAT(mixtral, Contains("model.layers.1.block_sparse_moe.experts.3.w2.weight"));
  EXPECT_THAT(mixtral, ::testing::Not(Contains("model.layers.0.mlp.gate_proj.weight")));
  const std::vector<std::string> qwen = names(TinyMixtures()[1]);  // its first layer is dense
  EXPECT_THAT(qwen, Contains("model.layers.0.mlp.gate_proj.weight"));
  EXPECT_THAT(qwen, Contains("model.layers.1.mlp.gate.weight"));
  EXPECT_THAT(qwen, Contains("model.layers.1.mlp.experts.4.down_proj.weight"));
}

// Broken: an impossible model would end in an exception of libtorch instead of a line that names
// the field.
TEST(ManifestTest, NamesWhatIsWrongWithYoungerKinds) {
  const auto error = [](v1::ModelSpec model, auto change) {
    change(model);
    return std::string(MakeManifest(model).status().message());
  };
  using Spec = v1::ModelSpec&;
  EXPECT_THAT(error(TinyLlama(), [](Spec m) { m.set_kv_heads(3); }),
              HasSubstr("model.kv_heads is 3; it must divide model.heads (4)"));
  EXPECT_THAT(error(TinyLlama(), [](Spec m) { m.set_rope_theta(0); }),
              HasSubstr("model.rope_theta is 0; it must be 1 or more"));
  EXPECT_THAT(error(TinyLlama(), [](Spec m) { m.set_width(12); }), HasSubstr("must be even"));
  EXPECT_THAT(error(TinyLlama(), [](Spec m) { m.mutable_decoder()->set_window(4); }),
              HasSubstr("model.window is not for family 'llama'"));
  EXPECT_THAT(error(TinyMixtures()[0], [](Spec m) { m.mutable_decoder()->set_experts(1); }),
              HasSubstr("model.experts_per_token is 2; it must be 1-1"));
  EXPECT_THAT(error(TinyGpt2(), [](Spec m) { m.mutable_decoder()->set_window(4); }),
              HasSubstr("model.window is not for kind 'gpt2'"));
  EXPECT_THAT(error(TinyGpt2(), [](Spec m) { m.set_hidden(0); }), HasSubstr("model.hidden is 0"));
  EXPECT_THAT(error(TinyGpt2(), [](Spec m) { m.set_norm_epsilon(0); }),
              HasSubstr("model.norm_epsilon is 0"));
  EXPECT_THAT(error(TinyGpt2(), [](Spec m) { m.set_kv_heads(2); }), HasSubstr("grouped queries"));
  EXPECT_THAT(error(TinySpec().model(), [](Spec m) { m.set_untied(true); }),
              HasSubstr("must be 0 with kind \"gpt\""));
  EXPECT_THAT(error(WithAdapters(TinyGpt2(), {"q_proj"}), [](Spec) {}),
              HasSubstr("\"q_proj\" name no matrix of a model of kind \"gpt2\""));
  EXPECT_THAT(error(WithAdapters(TinyGpt2(), {"c_fc"}), [](Spec m) { m.set_base_digest("x"); }),
              HasSubstr("model.base_digest has 1 byte; it must have 32"));
}

}  // namespace
}  // namespace atolld
