// What a run trains: the model of any kind, its data, and the inner steps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/config/config_text.h"
#include "daemon/config/data_config.h"
#include "daemon/config/data_on_disk.h"
#include "daemon/config/run_record.h"
#include "daemon/config/worker_program.h"
#include "tests/unit/daemon/config/config_file.h"

namespace atolld {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

absl::StatusOr<Config> LoadTraining(const std::string& text, ConfigUse use = ConfigUse::kAny) {
  return ConfigFile().Load(text, use);
}

std::string TrainingErrorOf(const std::string& text) { return ConfigFile().ErrorOf(text); }

// ------------------------------------------------------------------------------------------------
// The model of a kind of ours.

const char kDigest[] = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

absl::StatusOr<Config> LoadModel(const std::string& lines) {
  return LoadTraining(absl::StrCat("[coordinator]\ndir = \"c\"\n[model]\n", lines),
                      ConfigUse::kCoordinator);
}

v1::ModelSpec SpecOf(const std::string& lines) {
  const absl::StatusOr<Config> config = LoadModel(lines);
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
  EXPECT_FALSE(llama.has_decoder());
  EXPECT_EQ(SpecOf("kind = \"llama\"\nfamily = \"gemma3\"\n").decoder().local_rope_theta(), 10000);
  // Broken: the pattern that the key's own help gives would be refused.
  const v1::ModelSpec own = SpecOf("kind = \"llama\"\nlocal = \"lm_head.*, model.norm.*\"\n");
  EXPECT_THAT(own.local(), UnorderedElementsAre("lm_head.*", "model.norm.*"));
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

TEST(ModelConfig, TheFileToBeginWithMustBeThere) {
  // Broken: `atoll local` would start everything, and every worker of it would fail for ever.
  ConfigFile file;
  file.Write("text.txt", "text");
  file.Write("m.safetensors", "x");
  const std::string text = "[data]\npath = \"text.txt\"\n[model]\ninitial = ";
  EXPECT_EQ(file.ErrorOf(text + "\"m.safetensors\"\n", ConfigUse::kLocal), "");
  EXPECT_THAT(file.ErrorOf(text + "\"n.safetensors\"\n", ConfigUse::kLocal),
              HasSubstr("x.toml:4: model.initial 'n.safetensors' is not an existing file"));
  // A coordinator only hands the name of the model on.
  EXPECT_EQ(file.ErrorOf("[coordinator]\ndir = \"c\"\n" + text + "\"n.safetensors\"\n",
                         ConfigUse::kCoordinator),
            "");
}

TEST(DataConfig, ATextHasAWholeSequence) {
  // Broken: everything would be started, and every worker fail for ever.
  ConfigFile file;
  Config config;
  config.data.path = file.Write("text.txt", std::string(70, 'x'));
  config.model.context = 64;
  EXPECT_THAT(std::string(CheckDataSize(config).message()),
              HasSubstr("has 70 bytes, of which 63 are trained on: not one sequence of [model] "
                        "context = 64"));
  config.data.path = file.Write("text.txt", std::string(640, 'x'));
  EXPECT_THAT(std::string(CheckDataSize(config).message()),
              HasSubstr("has 640 bytes, of which 64 validate: not one sequence"));
  config.data.path = file.Write("text.txt", std::string(650, 'x'));
  EXPECT_TRUE(CheckDataSize(config).ok());
  config.model.context = 512;
  config.data.tokenizer = "tokenizer.json";  // how many tokens it has, only a worker can tell
  EXPECT_TRUE(CheckDataSize(config).ok());
  file.Write("text.txt", "");
  EXPECT_THAT(std::string(CheckDataSize(config).message()), HasSubstr("' is empty"));
}

TEST(DataConfig, APartyTrainsOnWhatItHas) {
  // Broken: a run of small parties would start or not by which of them is the first.
  ConfigFile file;
  Config config;
  config.data.is_private = true;
  config.model.context = 64;
  config.data.path = file.Write("party-1.txt", "ab");
  EXPECT_TRUE(CheckDataSize(config).ok()) << CheckDataSize(config);
  file.Write("party-1.txt", "a");
  EXPECT_THAT(std::string(CheckDataSize(config).message()),
              HasSubstr("has 1 byte; a party trains from two tokens on"));
}

TEST(DataConfig, AFolderOfTextHoldsNoRun) {
  // Broken: a run would train on its own logs, and its workers would disagree about the text.
  ConfigFile file;
  std::filesystem::create_directories(file.Path("text/runs"));
  std::filesystem::create_directories(file.Path("text-2"));
  std::filesystem::create_directory_symlink(file.Path("text"), file.Path("link"));
  DataConfig data;
  data.path = file.Path("text");
  EXPECT_THAT(std::string(CheckDataApart(data, file.Path("text/runs/a")).message()),
              HasSubstr("they would be trained on"));
  EXPECT_FALSE(CheckDataApart(data, file.Path("text")).ok());
  EXPECT_FALSE(CheckDataApart(data, file.Path("link/new")).ok());
  EXPECT_TRUE(CheckDataApart(data, file.Path("text-2")).ok());
  EXPECT_TRUE(CheckDataApart(data, file.Path("runs")).ok());
  const std::string text =
      "[data]\npath = \"text\"\n[coordinator]\naddress = "
      "\"127.0.0.1:1\"\n[peer]\nid = \"a\"\ndir = \"text/a\"\n";
  EXPECT_THAT(file.ErrorOf(text, ConfigUse::kPeer), HasSubstr("x.toml:7: the data folder"));
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
  EXPECT_EQ(TrainedParameters(SpecOf("kind = \"llama\"\nfamily = \"qwen2\"\nlayers = 24\n"
                                     "heads = 14\nkv_heads = 2\nwidth = 896\nhidden = 4864\n"
                                     "vocabulary = 151936\n")),
            494032768u);  // Qwen2.5 0.5B
  EXPECT_EQ(TrainedParameters(SpecOf("kind = \"llama\"\nfamily = \"qwen3\"\nlayers = 28\n"
                                     "heads = 16\nkv_heads = 8\nwidth = 1024\nhidden = 3072\n"
                                     "head_width = 128\nvocabulary = 151936\n")),
            596049920u);  // Qwen3 0.6B
  EXPECT_EQ(TrainedParameters(SpecOf("kind = \"llama\"\nfamily = \"olmo2\"\nlayers = 16\n"
                                     "heads = 16\nwidth = 2048\nhidden = 8192\n"
                                     "vocabulary = 100352\ntied = false\n")),
            1484916736u);  // OLMo 2 1B
  EXPECT_EQ(TrainedParameters(SpecOf("kind = \"llama\"\nfamily = \"gemma3\"\nlayers = 26\n"
                                     "heads = 4\nkv_heads = 1\nwidth = 1152\nhidden = 6912\n"
                                     "head_width = 256\nwindow = 512\n"
                                     "layer_pattern = \"lllllg\"\nvocabulary = 262144\n")),
            999885952u);  // Gemma 3 1B
  EXPECT_EQ(TrainedParameters(SpecOf("kind = \"llama\"\nfamily = \"mixtral\"\nlayers = 32\n"
                                     "heads = 32\nkv_heads = 8\nwidth = 4096\nhidden = 14336\n"
                                     "vocabulary = 32000\ntied = false\nexperts = 8\n"
                                     "experts_per_token = 2\n")),
            46702792704u);  // Mixtral 8x7B
  EXPECT_EQ(TrainedParameters(SpecOf("kind = \"llama\"\nfamily = \"qwen3_moe\"\nlayers = 48\n"
                                     "heads = 32\nkv_heads = 4\nwidth = 2048\nhidden = 6144\n"
                                     "head_width = 128\nvocabulary = 151936\ntied = false\n"
                                     "experts = 128\nexperts_per_token = 8\n"
                                     "expert_hidden = 768\n")),
            30532122624u);  // Qwen3 30B A3B
  EXPECT_EQ(TrainedParameters(SpecOf("kind = \"llama\"\nfamily = \"olmoe\"\nlayers = 16\n"
                                     "heads = 16\nwidth = 2048\nhidden = 1024\n"
                                     "vocabulary = 50304\ntied = false\nexperts = 64\n"
                                     "experts_per_token = 8\n")),
            6919161856u);  // OLMoE 1B 7B
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
      {"hidden = 7\n", "[model] hidden is not for kind 'gpt'; leave it out, or take kind 'gpt2'"},
      {"kind = \"gpt2\"\nkv_heads = 2\n", "[model] kv_heads is not for kind 'gpt2'"},
      {"kind = \"gpt2\"\nrope_theta = 2\n", "[model] rope_theta is not for kind 'gpt2'"},
      {"tied = false\n", "[model] tied is not for kind 'gpt'"},
      {"kind = \"llama\"\nkv_heads = 3\n", "kv_heads must divide heads, and 3 does not divide 4"},
      {"kind = \"llama\"\nwidth = 12\n", "width / heads must be even with kind 'llama'"},
      {"kind = \"llama\"\nrope_theta = 0.5\n", "rope_theta must be 0 or at least 1, not 0.5"},
      {"kind = \"gpt2\"\nwindow = 4\n", "[model] window is not for kind 'gpt2'"},
      {"kind = \"llama\"\nwindow = 4\n", "[model] window is not for family 'llama'"},
      {"kind = \"llama\"\nrope_factor = 2\n", "rope_factor is 2; it must be 0 with rope_scaling"},
      {"kind = \"llama\"\nexperts = 8\n", "[model] experts is not for family 'llama'"},
      {"kind = \"llama\"\nfamily = \"mixtral\"\n", "[model] experts is 0; it must be 1-1024"},
      {"kind = \"llama\"\nfamily = \"mixtral\"\nexperts = 4\nexperts_per_token = 2\n"
       "lora_rank = 4\nlora_targets = \"gate_proj\"\n",
       "has no 'gate_proj'; it has q_proj, k_proj, v_proj, o_proj, w1, w3, w2"},
      {"lora_alpha = 3\n", "lora_targets and lora_alpha are for adapters; set lora_rank too"},
      {"lora_rank = 4\n", "[model] base_digest is missing"},
      {"lora_rank = 4\nbase_digest = \"12\"\n", "base_digest must be 64 hexadecimal digits"},
      {"lora_rank = 4\nlora_targets = \"c_attn,,\"\n", "lora_targets must be names of a-z"},
      {"lora_rank = 4\nlora_targets = \"q_proj\"\n",
       "lora_targets: a model of kind 'gpt' has no 'q_proj'; it has c_attn, c_proj, c_fc"},
  };
  for (const auto& one : cases) {
    EXPECT_THAT(std::string(LoadModel(one.lines).status().message()), HasSubstr(one.message))
        << one.lines;
  }
}

TEST(ModelConfig, AModelThatNoMessageCarriesIsRefused) {
  // Broken: hundreds of machines would begin a run whose state nobody can ever join.
  const std::string lines =
      "kind = \"llama\"\nheads = 128\nwidth = 16384\nvocabulary = 32000\nlayers = ";
  EXPECT_TRUE(LoadModel(lines + "70\n").status().ok()) << LoadModel(lines + "70\n").status();
  const std::string refused(LoadModel(lines + "96\n").status().message());
  EXPECT_THAT(refused, HasSubstr("a snapshot's leaves on disk of 3"));
  EXPECT_THAT(refused, HasSubstr("and 67108864 is the limit; what helps is a smaller model"));
}

TEST(ModelConfig, AdaptersAreOfOneBase) {
  // Broken: peers with other bases would be let in, and their adapters averaged.
  const std::string lines = absl::StrCat("lora_rank = 4\nbase_digest = \"", kDigest, "\"\n");
  const v1::ModelSpec spec = SpecOf(lines + "lora_targets = \"c_fc, c_attn,c_fc\"\n");
  EXPECT_EQ(spec.base_digest().size(), 32u);
  EXPECT_EQ(spec.base_digest()[1], '\x11');
  EXPECT_EQ(spec.lora_alpha(), 8);
  EXPECT_THAT(spec.lora_targets(), ::testing::ElementsAre("c_attn", "c_fc"));
  EXPECT_THAT(std::string(LoadModel(lines + "initial = \"x\"\n").status().message()),
              HasSubstr("[model] initial must be empty with adapters"));
  EXPECT_EQ(spec.base_path(), "");
}

// ------------------------------------------------------------------------------------------------
// The inner steps.

// Broken: a run that cannot train as it says would only be found out by its workers.
TEST(InnerConfig, SaysWhatIsWrong) {
  const struct {
    const char* lines;
    const char* error;
  } cases[] = {
      {"[inner]\nbatch = 12\naccumulation = 5\n",
       "3: [inner] accumulation must divide batch (12), and 5 does not"},
      {"[inner]\ncooldown_steps = 5\n",
       "2: [inner] cooldown_steps is for schedule 'wsd' alone, not 'cosine'"},
      {"[inner]\nschedule = \"wsd\"\nwarmup_steps = 10\ndecay_steps = 100\ncooldown_steps = 91\n",
       "5: [inner] cooldown_steps must fit between warmup_steps (10) and the schedule's end (100), "
       "not 91"},
      {"[inner]\nschedule = \"linear\"\n",
       "2: [inner] schedule must be 'cosine', 'wsd' or 'constant', not 'linear'"},
      {"[inner]\nprecision = \"fp16\"\n",
       "2: [inner] precision must be 'fp32' or 'bf16', not 'fp16'"},
  };
  for (const auto& one : cases)
    EXPECT_EQ(TrainingErrorOf(one.lines), absl::StrCat("x.toml:", one.error)) << one.lines;
}

// Broken: a device that no worker can take would only be found out by its worker, or one that it
// can take would be refused.
TEST(InnerConfig, SaysWhichDevicesAreNone) {
  for (const char* wrong :
       {"gpu", "cuda:", "cuda:128", "cuda:-1", "cuda:0,", ",cpu", "auto,cpu", "cpu,cuda:0",
        "cuda,cuda:0", "cuda:1,cuda:1", "cuda:all,cuda:0", "mps,cpu", "mps:0"}) {
    EXPECT_EQ(
        TrainingErrorOf(absl::StrCat("[worker]\ndevice = \"", wrong, "\"\n")),
        absl::StrCat("x.toml:2: [worker] device must be 'auto', 'cpu', 'cuda', one GPU of several "
                     "like 'cuda:1', 'cuda:all', 'mps', or a list of different GPUs or of CPUs "
                     "like 'cuda:0,cuda:1' or 'cpu,cpu', not '",
                     wrong, "'"));
  }
  for (const char* right : {"auto", "cpu", "cuda", "cuda:1", "cuda:all", "cpu,cpu,cpu",
                            "cuda:0, cuda:127", "cuda:1,cuda", "mps"}) {
    EXPECT_EQ(TrainingErrorOf(absl::StrCat("[worker]\ndevice = \"", right, "\"\n")), "");
  }
}

// Broken: a local run would only be told by its workers, again and again, that a step cannot be
// divided.
TEST(InnerConfig, ALocalRunHasASequenceForEachDevice) {
  const std::string lines =
      "[inner]\nbatch = 2\n[worker]\ndevice = \"cpu,cpu,cpu\"\n[data]\npath = \"/\"\n";
  EXPECT_EQ(TrainingErrorOf(lines), "");  // of a peer the batch may be another
  EXPECT_THAT(
      std::string(LoadTraining(lines, ConfigUse::kLocal).status().message()),
      ::testing::HasSubstr("4: [worker] device names 3 devices, and [inner] batch is 2; each "
                           "device needs one sequence at least"));
}

// Broken: workers would train otherwise than the config says.
TEST(InnerConfig, TheRunRecordsIt) {
  const absl::StatusOr<Config> config = LoadTraining(
      "[inner]\noptimizer = \"muon\"\nschedule = \"wsd\"\ndecay_steps = 1000\n"
      "precision = \"bf16\"\naccumulation = 3\ncheckpointing = true\nmuon_momentum = 0.9\n");
  ASSERT_TRUE(config.ok()) << config.status();
  const v1::InnerSpec inner = MakeRunSpec(*config).inner();
  EXPECT_EQ(inner.optimizer(), "muon");
  EXPECT_EQ(inner.schedule(), "wsd");
  EXPECT_EQ(inner.cooldown_steps(), 200u);
  EXPECT_EQ(inner.precision(), "bf16");
  EXPECT_EQ(inner.accumulation(), 3u);
  EXPECT_TRUE(inner.checkpointing());
  EXPECT_EQ(inner.muon_momentum(), 0.9);
}

// Broken: `atoll local` would give its daemons another run than the one that was asked for.
TEST(InnerConfig, WhatIsWrittenReadsBackTheSame) {
  Config config;
  config.inner.optimizer = "muon";
  config.inner.schedule = "wsd";
  config.inner.cooldown_steps = 100;
  config.inner.precision = "bf16";
  config.inner.accumulation = 3;
  config.inner.checkpointing = true;
  config.inner.muon_momentum = 0.9;
  config.worker.device = "cuda:1";
  const std::string text = FormatConfig(config);
  const absl::StatusOr<Config> read = LoadTraining(text);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(FormatConfig(*read), text);
  EXPECT_EQ(read->inner.cooldown_steps, 100u);
  EXPECT_EQ(read->inner.precision, "bf16");
  EXPECT_EQ(read->inner.accumulation, 3u);
  EXPECT_TRUE(read->inner.checkpointing);
  EXPECT_EQ(read->inner.muon_momentum, 0.9);
  EXPECT_EQ(read->worker.device, "cuda:1");
}

// Broken: a coordinator that is renewed would refuse to go on with the run that it began, since the
// same config would make another run of it.
TEST(InnerConfig, ARunWithoutItIsTheRunThatItWas) {
  const v1::InnerSpec inner = MakeRunSpec(Config()).inner();
  EXPECT_EQ(inner.schedule(), "");
  EXPECT_EQ(inner.cooldown_steps(), 0u);
  EXPECT_EQ(inner.precision(), "");
  EXPECT_EQ(inner.accumulation(), 0u);
  EXPECT_FALSE(inner.checkpointing());
  EXPECT_EQ(inner.muon_momentum(), 0);
}

// ------------------------------------------------------------------------------------------------
// Data.

class DataConfigTest : public ::testing::Test {
 protected:
  DataConfigTest() {
    std::filesystem::create_directory(Path("prepared"));
    file_.Write("prepared/data.json", "{\"vocabulary\": 700}");
    file_.Write("a.txt", "text");
    file_.Write("tokenizer.json", "{}");
  }

  absl::StatusOr<Config> LoadTraining(const std::string& lines, ConfigUse use = ConfigUse::kLocal) {
    return file_.Load(lines, use);
  }

  std::string TrainingErrorOf(const std::string& lines, ConfigUse use = ConfigUse::kLocal) {
    return file_.ErrorOf(lines, use);
  }

  std::string Path(const std::string& name) const { return file_.Path(name); }

  ConfigFile file_;
};

// Broken: a model would be made for another number of tokens than its data has.
TEST_F(DataConfigTest, TheVocabularyIsTheDatas) {
  const auto prepared = LoadTraining("[data]\npath = \"prepared\"\n");
  ASSERT_TRUE(prepared.ok()) << prepared.status();
  EXPECT_EQ(MakeRunSpec(*prepared).model().vocabulary(), 700u);
  // Padded on purpose, as nanoGPT does.
  const auto padded = LoadTraining("[data]\npath = \"prepared\"\n[model]\nvocabulary = 768\n");
  EXPECT_EQ(MakeRunSpec(*padded).model().vocabulary(), 768u);
  const auto bytes = LoadTraining("[data]\npath = \"a.txt\"\n");
  EXPECT_EQ(MakeRunSpec(*bytes).model().vocabulary(), 256u);
  EXPECT_EQ(MakeRunSpec(*bytes).data().kind(), "text");
  EXPECT_EQ(MakeRunSpec(*bytes).data().tokenizer(), "");
  // What a local run's coordinator is given, which reads no data.
  EXPECT_THAT(FormatConfig(*prepared), HasSubstr("vocabulary = 700 "));
}

// Broken: a run of text and a tokenizer would begin with a model that cannot take its tokens.
TEST_F(DataConfigTest, AMissingVocabularyIsAskedFor) {
  for (const ConfigUse use : {ConfigUse::kLocal, ConfigUse::kCoordinator}) {
    const std::string more = "[coordinator]\ndir = \"c\"\n[data]\npath = \"a.txt\"\n";
    EXPECT_THAT(TrainingErrorOf(more + "kind = \"bin\"\n", use),
                HasSubstr("with [data] kind 'bin'"));
  }
  // A coordinator has no text to count in; a local run has.
  const std::string chars =
      "[coordinator]\ndir = \"c\"\n[data]\npath = \"a.txt\"\ntokenizer = \"chars\"\n";
  EXPECT_THAT(TrainingErrorOf(chars, ConfigUse::kCoordinator),
              HasSubstr("x.toml:5: [model] vocabulary is missing: with [data] tokenizer 'chars'"));
  const auto counted = LoadTraining(chars);
  ASSERT_TRUE(counted.ok()) << counted.status();
  EXPECT_TRUE(NeedsCounting(counted->data));
  EXPECT_FALSE(NeedsCounting(LoadTraining("[data]\npath = \"a.txt\"\n")->data));
  EXPECT_FALSE(
      NeedsCounting(LoadTraining("[data]\npath = \"prepared\"\ntokenizer = \"chars\"\n")->data));
  const auto said =
      LoadTraining("[data]\npath = \"a.txt\"\ntokenizer = \"chars\"\n[model]\nvocabulary = 9\n");
  ASSERT_TRUE(said.ok()) << said.status();
  EXPECT_EQ(MakeRunSpec(*said).data().tokenizer(), "chars");
}

// Broken: peers would read the same files as other tokens, or a run without the keys would have
// another digest than it had.
TEST_F(DataConfigTest, WhatDecidesTheTokensIsRecorded) {
  const auto config = LoadTraining(
      "[data]\npath = \"a.txt\"\nwidth = 4\nend_of_text = \"</s>\"\non_bad_line = \"skip\"\n");
  ASSERT_TRUE(config.ok()) << config.status();
  const v1::DataSpec data = MakeRunSpec(*config).data();
  EXPECT_EQ(data.width(), 4u);
  EXPECT_EQ(data.end_of_text(), "</s>");
  EXPECT_EQ(data.on_bad_line(), "skip");
  const v1::DataSpec usual = MakeRunSpec(*LoadTraining("[data]\npath = \"a.txt\"\n")).data();
  EXPECT_EQ(usual.on_bad_line(), "");
  EXPECT_EQ(usual.width(), 0u);
  EXPECT_THAT(TrainingErrorOf("[data]\npath = \"a.txt\"\nwidth = 3\n"),
              HasSubstr("x.toml:3: [data] width is 3; it must be 1, 2, 4 or 8"));
  // Bits are as good as bytes.
  EXPECT_EQ(MakeRunSpec(*LoadTraining("[data]\npath = \"a.txt\"\nwidth = 32\n")).data().width(),
            4u);
}

// Broken: peers would write conversations in different forms, or learn different parts of them; or
// a key that means nothing would be taken.
TEST_F(DataConfigTest, ConversationsAreRecorded) {
  const std::string data = "[model]\nvocabulary = 300\n[data]\npath = \"a.txt\"\n";
  const auto config = LoadTraining(
      data +
      "tokenizer = \"a.txt\"\ntemplate = \"llama3\"\nloss_on = \"all\"\npacking = \"join\"\n");
  ASSERT_TRUE(config.ok()) << config.status();
  const v1::DataSpec spec = MakeRunSpec(*config).data();
  EXPECT_EQ(spec.kind(), "chat");
  EXPECT_EQ(spec.chat_template(), "llama3");
  EXPECT_EQ(spec.loss_on(), "all");
  EXPECT_EQ(spec.packing(), "join");
  const v1::DataSpec pairs = MakeRunSpec(*LoadTraining(data + "kind = \"chat\"\n")).data();
  EXPECT_EQ(pairs.kind(), "chat");
  EXPECT_EQ(pairs.chat_template() + pairs.loss_on() + pairs.packing(), "");
  EXPECT_THAT(TrainingErrorOf(data + "packing = \"join\"\n"),
              HasSubstr("x.toml:5: [data] packing is for conversations; set template"));
  EXPECT_THAT(TrainingErrorOf(data + "loss_on = \"all\"\n"),
              HasSubstr("loss_on is for conversations"));
  EXPECT_THAT(TrainingErrorOf(data + "template = \"chatml\"\n"),
              HasSubstr("template 'chatml' needs a tokenizer's file that has its tokens"));
  const std::string chatml = data + "tokenizer = \"a.txt\"\ntemplate = \"chatml\"\n";
  EXPECT_THAT(TrainingErrorOf(chatml + "kind = \"bin\"\n"), HasSubstr("and kind is 'bin'"));
  EXPECT_THAT(TrainingErrorOf(chatml + "field = \"body\"\n"), HasSubstr("field must be empty"));
  EXPECT_THAT(TrainingErrorOf(data + "kind = \"chat\"\ntokenizer = \"chars\"\n"),
              HasSubstr("must not be 'chars' with conversations"));
  EXPECT_THAT(TrainingErrorOf(data + "template = \"chatmi\"\n"), HasSubstr("'chatml' or 'llama3'"));
}

// Broken: a worker would look for its data in its own folder, or not be told of the tokenizer.
TEST_F(DataConfigTest, PlacesAreAbsoluteAndSourcesKeepTheirOrder) {
  const auto config = LoadTraining(
      "[model]\nvocabulary = 700\n[data]\nsources = \"prepared:0.75, a.txt:0.25\"\n"
      "tokenizer = \"tokenizer.json\"\nfield = \"body\"\n");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(WorkerPlaces(config->data), absl::StrCat(Path("prepared"), "\n", Path("a.txt"),
                                                     "\ntokenizer ", Path("tokenizer.json")));
  const v1::RunSpec spec = MakeRunSpec(*config);
  EXPECT_THAT(spec.data().weights(), ElementsAre(0.75, 0.25));
  EXPECT_EQ(spec.data().tokenizer(), "file");
  EXPECT_EQ(spec.data().field(), "body");
  const auto again = LoadTraining(FormatConfig(*config));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(FormatConfig(*again), FormatConfig(*config));
}

// Broken: a slip in the section would be found by a worker on another machine, or not at all.
TEST_F(DataConfigTest, NamesWhatIsWrong) {
  EXPECT_THAT(TrainingErrorOf("[data]\nsources = \"a.txt\"\n"),
              HasSubstr("x.toml:2: [data] sources must be of the form"));
  EXPECT_THAT(TrainingErrorOf("[data]\nsources = \"a.txt:1,:2\"\n"), HasSubstr("not ':2'"));
  EXPECT_THAT(TrainingErrorOf("[data]\nsources = \"a.txt:0\"\n"), HasSubstr("not 'a.txt:0'"));
  EXPECT_THAT(TrainingErrorOf("[data]\npath = \"a.txt\"\nsources = \"a.txt:1\"\n"),
              HasSubstr("x.toml:3: [data] sources is in place of path"));
  EXPECT_THAT(TrainingErrorOf("[data]\nsources = \"a.txt:1,b.txt:1\"\n"),
              HasSubstr("x.toml:2: data.sources 'b.txt' does not exist"));
  EXPECT_THAT(TrainingErrorOf(
                  "[model]\nvocabulary = 9\n[data]\npath = \"a.txt\"\ntokenizer = \"t.json\"\n"),
              HasSubstr("x.toml:5: data.tokenizer 't.json' does not exist"));
  EXPECT_THAT(TrainingErrorOf("[data]\npath = \"a.txt\"\nkind = \"csv\"\n"),
              HasSubstr("[data] kind must be"));
}

// ------------------------------------------------------------------------------------------------
// Models that are no architecture of ours.

class ForeignConfigTest : public ::testing::Test {
 protected:
  ForeignConfigTest() {
    file_.Write("model.pt", "abc");
    file_.Write("rows.npy", "rows");
  }

  absl::StatusOr<Config> LoadTraining(const std::string& text, ConfigUse use) {
    return file_.Load(text, use);
  }

  std::string TrainingErrorOf(const std::string& text, ConfigUse use) {
    return file_.ErrorOf(text, use);
  }

  std::string Path(const std::string& name) const { return file_.Path(name); }

  ConfigFile file_;
};

constexpr char kScript[] = "[model]\nkind = \"torchscript\"\n";
constexpr char kHub[] = "[model]\nkind = \"huggingface\"\n";
constexpr char kExternal[] = "[model]\nkind = \"external\"\n";

TEST_F(ForeignConfigTest, SaysWhatAKindLacksOrDoesNotTake) {
  // Broken: a key would be taken and have no effect, or a run would start that cannot train.
  struct Case {
    std::string text, message;
    ConfigUse use = ConfigUse::kAny;
  };
  const std::vector<Case> cases = {
      {absl::StrCat(kExternal, "layers = 4\n"),
       "x.toml:3: [model] layers is not for a model of kind 'external', which its worker alone "
       "describes"},
      {absl::StrCat(kScript, "file = \"model.pt\"\nwidth = 64\n"),
       "x.toml:4: [model] width is not for a model of kind 'torchscript', which is whatever its "
       "file holds"},
      {"[model]\nfile = \"model.pt\"\n",
       "x.toml:2: [model] file is not for a model of kind 'gpt', which is not a file; "
       "'torchscript' is"},
      {kExternal,
       "x.toml:1: [worker] program is missing: with [model] kind 'external' it is what trains",
       ConfigUse::kLocal},
      {absl::StrCat(kScript, "[coordinator]\ndir = \"c\"\n"),
       "x.toml:1: [model] file is missing: a model of kind 'torchscript' is that file",
       ConfigUse::kCoordinator},
      {absl::StrCat(kScript, "file = \"none.pt\"\n"),
       "x.toml:3: model.file 'none.pt' is not an existing file"},
      {absl::StrCat(kScript, "file = \"model.pt\"\n"),
       "x.toml:1: [data] path is missing: the text to train on, a file or a folder",
       ConfigUse::kLocal},
  };
  for (const Case& one : cases)
    EXPECT_EQ(TrainingErrorOf(one.text, one.use), one.message) << one.text;
}

TEST_F(ForeignConfigTest, SaysWhatAFolderOfHuggingFacesLacksOrDoesNotTake) {
  // Broken: a run would start whose worker can only refuse it, or which ignores a key.
  std::ofstream(Path("config.json")) << "{}";
  const std::string here = absl::StrCat(kHub, "path = \".\"\n");
  struct Case {
    std::string text, message;
    ConfigUse use = ConfigUse::kAny;
  };
  const std::vector<Case> cases = {
      {absl::StrCat(kHub, "[data]\npath = \"rows.npy\"\n"),
       "x.toml:1: [model] path is missing: a model of kind 'huggingface' is that folder",
       ConfigUse::kLocal},
      {kHub, "", ConfigUse::kAny},  // a coordinator needs none
      {absl::StrCat(kHub, "path = \"none\"\n"),
       "x.toml:3: model.path 'none' is not a folder with a config.json or an adapter_config.json, "
       "as "
       "transformers and PEFT write them"},
      {absl::StrCat(here, "layers = 4\n"),
       "x.toml:4: [model] layers is not for a model of kind 'huggingface', which is whatever its "
       "folder holds"},
      {"[model]\npath = \".\"\n",
       "x.toml:2: [model] path is not for a model of kind 'gpt', which is not a folder; "
       "'huggingface' is"},
      {absl::StrCat(here, "base = \"b\"\n"),
       "x.toml:4: [model] base is not for kind 'huggingface': the base is the folder at [model] "
       "path"},
      {absl::StrCat(here, "lora_alpha = 4\n"),
       "x.toml:4: [model] lora_targets and lora_alpha are for adapters; set lora_rank too"},
      {absl::StrCat(here, "base_bits = 4\n"),
       "x.toml:4: [model] base_bits needs lora_rank: values of 4 bits cannot be trained, only "
       "adapters beside them"},
      {absl::StrCat(here, "lora_rank = 8\nbase_bits = 3\n"),
       "x.toml:5: [model] base_bits is 3; it must be 4, or 0 for the base as it is"},
      {"[model]\nbase_bits = 4\n",
       "x.toml:2: [model] base_bits is for kind 'huggingface' alone; a model of kind 'gpt' has no "
       "base in fewer bits: leave it out"},
      {absl::StrCat(here, "[data]\ntokenizer = \"chars\"\n"),
       "x.toml:5: [data] tokenizer is not for a model of kind 'huggingface', which has the "
       "tokenizer of its folder"},
      {absl::StrCat(here, "[data]\nsources = \"a:1,b:1\"\n"),
       "x.toml:5: [data] sources is not for a model of kind 'huggingface', which reads one file "
       "or folder, [data] path"},
      {absl::StrCat(here, "[data]\nprivate = true\n[parties]\nhosted = 2\n"),
       "x.toml:7: [parties] hosted must be 0 with kind 'huggingface': atoll-hf-worker trains one "
       "party; start a peer for each"},
  };
  for (const Case& one : cases)
    EXPECT_EQ(TrainingErrorOf(one.text, one.use), one.message) << one.text;
}

TEST_F(ForeignConfigTest, AFolderOfHuggingFacesIsNamedByItsConfig) {
  // Broken: peers would train models of another shape, or the run would not say what is trained.
  std::ofstream(Path("config.json")) << "abc";
  const std::string text =
      absl::StrCat(kHub, "path = \".\"\ncontext = 16\nlora_rank = 8\nlora_targets = \"b,a\"\n",
                   "base_bits = 4\n", "[data]\npath = \"rows.npy\"\nkind = \"npy\"\n");
  absl::StatusOr<Config> config = LoadTraining(text, ConfigUse::kLocal);
  ASSERT_TRUE(config.ok()) << config.status();
  config->run.id = "r";
  const v1::RunSpec spec = MakeRunSpec(*config);
  EXPECT_EQ(spec.model().kind(), "huggingface");
  EXPECT_EQ(spec.model().file(), "");  // a path of one machine
  EXPECT_EQ(absl::BytesToHexString(spec.model().file_digest()),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");  // of "abc"
  EXPECT_EQ(spec.model().context(), 16u);
  EXPECT_EQ(spec.model().layers(), 0u);
  EXPECT_EQ(spec.model().lora_rank(), 8u);
  EXPECT_EQ(spec.model().lora_alpha(), 16);
  EXPECT_EQ(spec.model().base_bits(), 4u);
  EXPECT_EQ(absl::StrJoin(spec.model().lora_targets(), ","), "a,b");
  EXPECT_EQ(spec.data().kind(), "npy");
  const std::string written = FormatConfig(*config);
  const absl::StatusOr<Config> read = LoadTraining(written, ConfigUse::kLocal);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(FormatConfig(*read), written);
  EXPECT_EQ(MakeRunSpec(*read).SerializeAsString(), spec.SerializeAsString());
}

TEST_F(ForeignConfigTest, TheWorkerOfHuggingFacesIsFoundInThePath) {
  // Broken: what pip has installed would not be started, or its absence not be told.
  const std::string folder = Path("bin");
  std::filesystem::create_directories(folder);
  const char* const path = std::getenv("PATH");
  const std::string before = path == nullptr ? "" : path;
  setenv("PATH", absl::StrCat("/nowhere::", folder).c_str(), 1);
  EXPECT_EQ(FindWorkerProgram("huggingface", "/opt"), "");
  EXPECT_TRUE(absl::StrContains(NoWorkerText("huggingface"), "pip install"));
  const std::string program = absl::StrCat(folder, "/atoll-hf-worker");
  std::ofstream(program) << "#!/bin/sh\n";
  EXPECT_EQ(FindWorkerProgram("huggingface", "/opt"), "");  // cannot be executed
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  EXPECT_EQ(FindWorkerProgram("huggingface", "/opt"), program);
  setenv("PATH", before.c_str(), 1);
  EXPECT_EQ(FindWorkerProgram("huggingface", folder), program);
  EXPECT_EQ(FindWorkerProgram("gpt", "/opt"), "/opt/atoll-worker");
  EXPECT_EQ(FindWorkerProgram("external", "/opt"), "");
}

TEST_F(ForeignConfigTest, AFileIsNamedByItsBytes) {
  // Broken: peers would train different files under one run.
  const std::string text =
      absl::StrCat(kScript, "file = \"model.pt\"\n[data]\npath = \"rows.npy\"\n");
  absl::StatusOr<Config> config = LoadTraining(text, ConfigUse::kLocal);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->model.file, Path("model.pt"));
  config->run.id = "r";
  const v1::RunSpec spec = MakeRunSpec(*config);
  EXPECT_EQ(spec.model().kind(), "torchscript");
  EXPECT_EQ(absl::BytesToHexString(spec.model().file_digest()),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");  // of "abc"
  EXPECT_EQ(spec.model().file(), "");  // a path of one machine
  EXPECT_EQ(spec.model().context(), 1u);
  EXPECT_EQ(spec.model().layers(), 0u);
  EXPECT_EQ(spec.data().kind(), "arrays");
  EXPECT_EQ(WorkerProgramOf("torchscript"), "atoll-worker");
}

TEST_F(ForeignConfigTest, AWorkerOfOnesOwnNeedsNoData) {
  // Broken: a trainer that makes or fetches its own data could not be run.
  const std::string text = absl::StrCat(kExternal, "[worker]\nprogram = \"train.py\"\n");
  absl::StatusOr<Config> config = LoadTraining(text, ConfigUse::kLocal);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->worker.program, Path("train.py"));
  config->run.id = "r";
  EXPECT_EQ(MakeRunSpec(*config).data().kind(), "external");
  EXPECT_EQ(TrainingErrorOf(absl::StrCat(text, "[data]\npath = \"none\"\n"), ConfigUse::kLocal),
            "x.toml:6: data.path 'none' does not exist");
}

TEST_F(ForeignConfigTest, WrittenConfigsOfBothKindsReadBack) {
  // Broken: `atoll local` would write its daemons configs that they refuse.
  for (const std::string& text :
       {absl::StrCat(kExternal, "[worker]\nprogram = \"train.py\"\n"),
        absl::StrCat(kScript, "file = \"model.pt\"\n[data]\npath = \"rows.npy\"\n")}) {
    const absl::StatusOr<Config> config = LoadTraining(text, ConfigUse::kLocal);
    ASSERT_TRUE(config.ok()) << config.status();
    const std::string written = FormatConfig(*config);
    const absl::StatusOr<Config> read = LoadTraining(written, ConfigUse::kLocal);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(FormatConfig(*read), written);
  }
}

TEST_F(ForeignConfigTest, AStubNeedsNoDataAndHasItsOwnWorker) {
  // Broken: a benchmark of the system would need a text to train on, or start libtorch's worker.
  const std::string text =
      "[model]\nkind = \"stub\"\nparameters = 5000\n[inner]\nstep_time = \"20ms\"\n"
      "[peer]\nid = \"p\"\ndir = \"p\"\n";
  for (const ConfigUse use : {ConfigUse::kLocal, ConfigUse::kPeer}) {
    EXPECT_EQ(TrainingErrorOf(text, use), "");
  }
  EXPECT_EQ(TrainingErrorOf(text + "[data]\npath = \"nothing.txt\"\n", ConfigUse::kPeer),
            "x.toml:10: data.path 'nothing.txt' does not exist");
  absl::StatusOr<Config> config = LoadTraining(text, ConfigUse::kPeer);
  ASSERT_TRUE(config.ok()) << config.status();
  config->run.id = "r";
  const v1::RunSpec spec = MakeRunSpec(*config);
  EXPECT_EQ(spec.model().parameters(), 5000u);
  EXPECT_EQ(spec.inner().step_microseconds(), 20000u);
  EXPECT_EQ(spec.data().kind(), "none");
  EXPECT_EQ(WorkerProgramOf(spec.model().kind()), "atoll-stub-worker");
  EXPECT_EQ(WorkerProgramOf("gpt"), "atoll-worker");
}

}  // namespace
}  // namespace atolld
