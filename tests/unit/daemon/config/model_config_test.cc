// The shape of the model, what it begins with, and its adapters.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "daemon/config/config.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

const char kDigest[] = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

absl::StatusOr<Config> Load(const std::string& lines, ConfigUse use = ConfigUse::kCoordinator) {
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / absl::StrCat("atoll-model-", getpid(), ".toml");
  std::ofstream(path) << "[coordinator]\ndir = \"c\"\n[model]\n" << lines;
  absl::StatusOr<Config> config = LoadConfig(path.string(), use);
  std::filesystem::remove(path);
  return config;
}

v1::ModelSpec SpecOf(const std::string& lines) {
  const absl::StatusOr<Config> config = Load(lines);
  EXPECT_TRUE(config.ok()) << config.status();
  return config.ok() ? MakeRunSpec(*config).model() : v1::ModelSpec();
}

TEST(ModelConfig, WhatIsUsualIsSpeltOut) {
  // Broken: a run's record would leave a value to each worker's taste, or a run of the first kind
  // would have another record, and so another digest, than it had.
  const v1::ModelSpec llama = SpecOf("kind = \"llama\"\nwidth = 4096\nheads = 32\n");
  EXPECT_EQ(llama.hidden(), 11008u);  // Llama 7B's
  EXPECT_EQ(llama.kv_heads(), 32u);
  EXPECT_EQ(llama.rope_theta(), 10000);
  EXPECT_EQ(llama.norm_epsilon(), 1e-5);
  EXPECT_EQ(llama.vocabulary(), 256u);
  EXPECT_FALSE(llama.untied());
  const v1::ModelSpec gpt2 = SpecOf("kind = \"gpt2\"\nvocabulary = 50257\ntied = false\n");
  EXPECT_EQ(gpt2.hidden(), 512u);
  EXPECT_EQ(gpt2.vocabulary(), 50257u);
  EXPECT_EQ(gpt2.rope_theta(), 0);
  EXPECT_TRUE(gpt2.untied());
  const v1::ModelSpec gpt = SpecOf("");
  EXPECT_EQ(gpt.hidden(), 0u);
  EXPECT_EQ(gpt.norm_epsilon(), 0);
  EXPECT_FALSE(gpt.from_file());
  EXPECT_TRUE(SpecOf("initial = \"m.safetensors\"").from_file());
}

TEST(ModelConfig, PublishedModelsHaveTheirPublishedSizes) {
  // Broken: `atoll plan` would plan for another number of bytes than the run sends.
  EXPECT_EQ(TrainedParameters(SpecOf("kind = \"gpt2\"\nlayers = 12\nheads = 12\nwidth = 768\n"
                                     "context = 1024\nvocabulary = 50257\n")),
            124439808u);  // GPT-2 small
  EXPECT_EQ(TrainedParameters(SpecOf("kind = \"llama\"\nlayers = 32\nheads = 32\nwidth = 4096\n"
                                     "vocabulary = 32000\ntied = false\n")),
            6738415616u);  // Llama 2 7B
  EXPECT_EQ(TrainedParameters(SpecOf("kind = \"llama\"\nlayers = 22\nheads = 32\nkv_heads = 4\n"
                                     "width = 2048\nvocabulary = 32000\ntied = false\n")),
            1100048384u);  // TinyLlama 1.1B
  EXPECT_EQ(TrainedParameters(SpecOf(
                absl::StrCat("kind = \"llama\"\nlayers = 32\nheads = 32\nwidth = 4096\n"
                             "vocabulary = 32000\ntied = false\nlora_rank = 8\nbase_digest = \"",
                             kDigest, "\"\n"))),
            4194304u);  // what PEFT counts for it with q_proj and v_proj
}

TEST(ModelConfig, EveryMistakeIsNamed) {
  // Broken: a key would be ignored in silence, or a model refused only by its worker.
  const struct {
    const char* lines;
    const char* message;
  } cases[] = {
      {"hidden = 7\n", "[model] hidden is not of kind 'gpt'; leave it out, or take kind 'gpt2'"},
      {"kind = \"gpt2\"\nkv_heads = 2\n", "[model] kv_heads is not of kind 'gpt2'"},
      {"kind = \"gpt2\"\nrope_theta = 2\n", "[model] rope_theta is not of kind 'gpt2'"},
      {"tied = false\n", "[model] tied is not of kind 'gpt'"},
      {"kind = \"llama\"\nkv_heads = 3\n", "kv_heads must divide heads, and 3 does not divide 4"},
      {"kind = \"llama\"\nwidth = 12\n", "width / heads must be even with kind 'llama'"},
      {"kind = \"llama\"\nrope_theta = 0.5\n", "rope_theta must be 0 or at least 1, not 0.5"},
      {"lora_alpha = 3\n", "lora_targets and lora_alpha are of adapters; set lora_rank too"},
      {"lora_rank = 4\n", "[model] base_digest is missing"},
      {"lora_rank = 4\nbase_digest = \"12\"\n", "base_digest must be 64 hexadecimal digits"},
      {"lora_rank = 4\nlora_targets = \"c_attn,,\"\n", "lora_targets must be names of a-z"},
      {"lora_rank = 4\nlora_targets = \"q_proj\"\n",
       "lora_targets: a model of kind 'gpt' has no 'q_proj'; it has c_attn, c_proj, c_fc"},
  };
  for (const auto& one : cases) {
    EXPECT_THAT(std::string(Load(one.lines).status().message()), HasSubstr(one.message))
        << one.lines;
  }
}

TEST(ModelConfig, AdaptersAreOfOneBase) {
  // Broken: peers with other bases would be let in, and their adapters averaged.
  const std::string lines = absl::StrCat("lora_rank = 4\nbase_digest = \"", kDigest, "\"\n");
  const v1::ModelSpec spec = SpecOf(lines + "lora_targets = \"c_fc, c_attn,c_fc\"\n");
  EXPECT_EQ(spec.base_digest().size(), 32u);
  EXPECT_EQ(spec.base_digest()[1], '\x11');
  EXPECT_EQ(spec.lora_alpha(), 8);
  EXPECT_THAT(spec.lora_targets(), ::testing::ElementsAre("c_attn", "c_fc"));
  EXPECT_THAT(std::string(Load(lines + "initial = \"x\"\n").status().message()),
              HasSubstr("[model] initial must be empty with adapters"));
  EXPECT_EQ(spec.base_path(), "");
}

}  // namespace
}  // namespace atolld
