// How the inner steps are computed, and where: what a config may say and what the run records.
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

absl::StatusOr<Config> Load(const std::string& lines, ConfigUse use = ConfigUse::kAny) {
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / absl::StrCat("atoll-inner-", getpid(), ".toml");
  std::ofstream(path) << lines;
  absl::StatusOr<Config> config = LoadConfig(path.string(), use);
  std::filesystem::remove(path);
  return config;
}

std::string ErrorOf(const std::string& lines) {
  const std::string message(Load(lines).status().message());
  const size_t place = message.find(".toml:");
  return place == std::string::npos ? message : message.substr(place + 6);
}

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
  for (const auto& one : cases) EXPECT_EQ(ErrorOf(one.lines), one.error) << one.lines;
}

// Broken: a device that no worker can take would only be found out by its worker, or one that it
// can take would be refused.
TEST(InnerConfig, SaysWhichDevicesAreNone) {
  for (const char* wrong : {"gpu", "cuda:", "cuda:128", "cuda:-1", "cuda:0,", ",cpu", "auto,cpu",
                            "cpu,cuda:0", "cuda,cuda:0", "cuda:1,cuda:1", "cuda:all,cuda:0"}) {
    EXPECT_EQ(ErrorOf(absl::StrCat("[worker]\ndevice = \"", wrong, "\"\n")),
              absl::StrCat("2: [worker] device must be 'auto', 'cpu', 'cuda', one GPU of several "
                           "like 'cuda:1', 'cuda:all', or a list of different GPUs or of CPUs like "
                           "'cuda:0,cuda:1' or 'cpu,cpu', not '",
                           wrong, "'"));
  }
  for (const char* right : {"auto", "cpu", "cuda", "cuda:1", "cuda:all", "cpu,cpu,cpu",
                            "cuda:0, cuda:127", "cuda:1,cuda"}) {
    EXPECT_EQ(ErrorOf(absl::StrCat("[worker]\ndevice = \"", right, "\"\n")), "");
  }
}

// Broken: a local run would only be told by its workers, again and again, that a step cannot be
// divided.
TEST(InnerConfig, ALocalRunHasASequenceForEachDevice) {
  const std::string lines =
      "[inner]\nbatch = 2\n[worker]\ndevice = \"cpu,cpu,cpu\"\n[data]\npath = \"/\"\n";
  EXPECT_EQ(ErrorOf(lines), "");  // of a peer the batch may be another
  EXPECT_THAT(
      std::string(Load(lines, ConfigUse::kLocal).status().message()),
      ::testing::HasSubstr("4: [worker] device names 3 devices, and [inner] batch is 2; each "
                           "device needs one sequence at least"));
}

// Broken: workers would train otherwise than the config says.
TEST(InnerConfig, TheRunRecordsIt) {
  const absl::StatusOr<Config> config = Load(
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
  const absl::StatusOr<Config> read = Load(text);
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

}  // namespace
}  // namespace atolld
