#include "compression/base/decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

namespace atolld {
namespace {

using ::testing::HasSubstr;

DecoderShape Of(const std::string& family, const std::function<void(DecoderShape&)>& change) {
  DecoderShape shape;
  shape.family = family;
  if (family == "gemma3") shape.local_rope_theta = 10000;
  const DecoderFamily* const known = FindDecoderFamily(family);
  if (known != nullptr && !known->experts.module.empty()) {
    shape.experts.count = 4;
    shape.experts.per_token = 2;
  }
  change(shape);
  return shape;
}

TEST(Decoder, WhatNoModelOfAFamilyHasIsNamed) {
  // Broken: a key would be ignored in silence, or a worker end in an exception of libtorch.
  const struct {
    const char* family;
    std::function<void(DecoderShape&)> change;
    const char* message;
  } cases[] = {
      {"grok", [](DecoderShape&) {}, "family is 'grok'; known are llama, mistral, qwen2"},
      {"llama", [](DecoderShape& s) { s.head_width = 7; }, "head_width is 7; it must be even"},
      {"llama", [](DecoderShape& s) { s.window = 4; }, "window is not for family 'llama'"},
      {"mistral", [](DecoderShape& s) { s.attention_bias = true; },
       "attention_bias is not for family 'mistral'"},
      {"mistral", [](DecoderShape& s) { s.layer_pattern = "gl"; },
       "layer_pattern is not for family 'mistral'"},
      {"qwen2", [](DecoderShape& s) { s.layer_pattern = "gl"; }, "window is missing"},
      {"qwen2", [](DecoderShape& s) { s.layer_pattern = "gn"; }, "its letters must be of: gl"},
      {"qwen3", [](DecoderShape& s) { s.layer_pattern = "ggggg"; }, "layer_pattern has 5 letters"},
      {"smollm3",
       [](DecoderShape& s) {
         s.layer_pattern = "gn";
         s.window = 4;
       },
       "window is 4; it must be 0"},
      {"llama", [](DecoderShape& s) { s.rope_factor = 2; },
       "rope_factor is 2; it must be 0 with rope_scaling 'none'"},
      {"llama", [](DecoderShape& s) { s.rope_scaling = "linear"; },
       "rope_factor is 0; it must be 1 or more"},
      {"llama",
       [](DecoderShape& s) {
         s.rope_scaling = "llama3";
         s.rope_factor = 8;
         s.rope_low = 4;
         s.rope_high = 1;
       },
       "rope_high is 1; it must be above rope_low, 4"},
      {"llama", [](DecoderShape& s) { s.query_scalar = 8; }, "query_scalar is not for family"},
      {"gemma3", [](DecoderShape& s) { s.local_rope_theta = 0; }, "local_rope_theta is 0"},
      {"gemma3", [](DecoderShape& s) { s.logit_cap = 30; }, "logit_cap is not for family 'gemma3'"},
      {"gemma2", [](DecoderShape& s) { s.attention_cap = -1; }, "attention_cap is -1"},
      {"mistral", [](DecoderShape& s) { s.experts.count = 8; },
       "experts is not for family 'mistral'"},
      {"llama", [](DecoderShape& s) { s.experts.router_loss = 0.1; }, "router_loss is not for"},
      {"mixtral", [](DecoderShape& s) { s.experts.count = 0; },
       "experts is 0; it must be 1-1024 with family 'mixtral'"},
      {"mixtral", [](DecoderShape& s) { s.experts.per_token = 5; },
       "experts_per_token is 5; it must be 1-4"},
      {"mixtral", [](DecoderShape& s) { s.experts.normalised = true; },
       "experts_normalised is not for family 'mixtral'"},
      {"mixtral", [](DecoderShape& s) { s.experts.router_loss = -1; }, "router_loss is -1"},
      {"mixtral", [](DecoderShape& s) { s.qkv_clip = 8; }, "qkv_clip is not for family 'mixtral'"},
      {"olmoe", [](DecoderShape& s) { s.experts.hidden = 8; }, "expert_hidden is not for"},
      {"olmoe", [](DecoderShape& s) { s.experts.pattern = "ed"; }, "expert_pattern is not for"},
      {"olmoe", [](DecoderShape& s) { s.window = 8; }, "window is not for family 'olmoe'"},
      {"qwen3_moe", [](DecoderShape& s) { s.experts.pattern = "dd"; },
       "expert_pattern is 'dd'; its letters must be e (experts) and d (dense), with one e"},
      {"qwen3_moe", [](DecoderShape& s) { s.experts.pattern = "eeeed"; },
       "expert_pattern has 5 letters"},
  };
  for (const auto& one : cases) {
    const DecoderFault fault = FaultOfDecoder(Of(one.family, one.change), 4);
    EXPECT_THAT(fault.what, HasSubstr(one.message)) << one.family;
    EXPECT_EQ(fault.what.rfind(fault.key, 0), 0u) << fault.what;
  }
  for (const std::string& family : DecoderFamilyNames()) {
    EXPECT_EQ(FaultOfDecoder(Of(family, [](DecoderShape&) {}), 4).what, "") << family;
  }
  EXPECT_THAT(FaultOfNoDecoder(Of("qwen2", [](DecoderShape&) {}), "gpt2").what,
              HasSubstr("family is not for kind 'gpt2'; leave it out, or take kind 'llama'"));
  EXPECT_EQ(FaultOfNoDecoder(DecoderShape(), "gpt2").what, "");
}

TEST(Decoder, APatternGoesOverTheLayersAgainAndAgain) {
  // Broken: a layer that sees all would see a window alone.
  DecoderShape shape;
  EXPECT_EQ(LayerLetter(shape, 3), 'g');
  shape.window = 4;
  EXPECT_EQ(LayerLetter(shape, 3), 'l');
  shape.layer_pattern = "lm";
  EXPECT_EQ(LayerLetter(shape, 3), 'm');
  EXPECT_TRUE(IsLocalLayer('m'));
  EXPECT_FALSE(HasPositions('m'));
  EXPECT_FALSE(HasPositions('n'));
  EXPECT_FALSE(IsLocalLayer('n'));
}

TEST(Decoder, ALayerHasExpertsOrIsDense) {
  // Broken: peers would lay out other tensors than the model has.
  DecoderShape shape = Of("qwen3_moe", [](DecoderShape& s) { s.experts.hidden = 6; });
  EXPECT_TRUE(HasExperts(shape, 0));
  EXPECT_FALSE(HasExperts(DecoderShape(), 0));
  shape.experts.pattern = "de";
  EXPECT_FALSE(HasExperts(shape, 2));
  EXPECT_TRUE(HasExperts(shape, 3));
  const BlockSize size{8, 2, 2, 12};
  const auto count = [&](uint32_t layer) { return BlockTensors(shape, size, layer).size(); };
  EXPECT_EQ(count(1), count(0) - 3 + 1 + 4 * 3);
  EXPECT_EQ(BlockTensors(shape, size, 0).back().shape, (std::vector<uint64_t>{8, 12}));
  EXPECT_EQ(BlockTensors(shape, size, 1).back().shape, (std::vector<uint64_t>{8, 6}));
  shape.experts.hidden = 0;
  EXPECT_EQ(BlockTensors(shape, size, 1).back().shape, (std::vector<uint64_t>{8, 12}));
}

}  // namespace
}  // namespace atolld
