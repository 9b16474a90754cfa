// What a config says of its outer step, for the advice on it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "daemon/config/config_defaults.h"
#include "optimizer/outer_advice.h"
#include "tests/unit/daemon/config/config_file.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

Config ConfigOf(const std::string& text) {
  ConfigFile file;
  const absl::StatusOr<Config> config = file.Load(text);
  EXPECT_TRUE(config.ok()) << config.status() << "\n" << text;
  return config.ok() ? *config : Config();
}

std::string RunText(uint32_t peers, uint32_t steps, const std::string& optimizer,
                    const std::string& mode, const std::string& outer) {
  return absl::StrCat("[run]\npeers = ", peers, "\n[inner]\nsteps = ", steps, "\noptimizer = \"",
                      optimizer, "\"\n[mode]\nkind = \"", mode, "\"\n[outer]\n", outer);
}

TEST(OuterSettingTest, DefaultsGetNoAdvice) {
  // Broken: every command would tell people to change what they have not set; a run of another
  // number of peers than the file says, as `atoll plan --peers` has it, would be blamed for the
  // file's own default.
  for (const uint32_t peers : {1, 3, 8, 40}) {
    for (const uint32_t steps : {1, 5, 10, 30, 500}) {
      for (const char* mode : {"sync", "streaming", "eager", "delayed", "async"}) {
        for (const char* optimizer : {"adamw", "muon", "sgd"}) {
          const Config config = ConfigOf(RunText(peers, steps, optimizer, mode, ""));
          EXPECT_THAT(AdviseOuterStep(OuterSettingOf(config)), IsEmpty())
              << RunText(peers, steps, optimizer, mode, "");
          for (const uint32_t others : {1, 16, 1000}) {
            EXPECT_THAT(AdviseOuterStep(OuterSettingOf(WithPeers(config, others))), IsEmpty())
                << others << " in place of\n"
                << RunText(peers, steps, optimizer, mode, "");
          }
        }
      }
    }
  }
}

TEST(OuterSettingTest, WhatIsSetIsComparedWithTheRunsOwnRow) {
  // Broken: a part of the config would not reach the advice, which would then be that for another
  // run, or none.
  const std::string high = "rule = \"nesterov\"\nlearning_rate = 50\n";
  for (const char* mode : {"sync", "streaming", "eager", "delayed"}) {
    for (const char* optimizer : {"adamw", "muon"}) {
      const Config config = ConfigOf(RunText(8, 30, optimizer, mode, high));
      const OuterSetting setting = OuterSettingOf(config);
      EXPECT_EQ(setting.mode, mode);
      EXPECT_EQ(setting.rates.peers, 8);
      EXPECT_EQ(setting.rates.steps, 30);
      EXPECT_EQ(setting.rates.muon, optimizer == std::string("muon"));
      EXPECT_EQ(setting.rates.streaming, mode == std::string("streaming"));
      EXPECT_GT(setting.rates.parameters, 0);
      ASSERT_EQ(AdviseOuterStep(setting).size(), 1u) << mode << optimizer;
      EXPECT_THAT(AdviseOuterStep(setting)[0].what,
                  HasSubstr(DescribeOuterRates(NearestOuterRates(setting.rates))));
    }
  }
  const Config async = ConfigOf(RunText(8, 30, "adamw", "async", "rule = \"nesterov\"\n"));
  ASSERT_EQ(AdviseOuterStep(OuterSettingOf(async)).size(), 1u);
  EXPECT_EQ(AdviseOuterStep(OuterSettingOf(async))[0].changes[0].value, "delayed_nesterov");
  const Config overlap = ConfigOf(
      "[run]\npeers = 2\n[inner]\nsteps = 30\n[mode]\nkind = \"streaming\"\nfragments = 1\noverlap "
      "= 13\n");
  ASSERT_EQ(AdviseOuterStep(OuterSettingOf(overlap)).size(), 1u);
  EXPECT_EQ(AdviseOuterStep(OuterSettingOf(overlap))[0].changes[0].key, "[mode] overlap");
  const Config penalty = ConfigOf(
      "[mode]\nkind = \"delayed\"\ngap_penalty = true\n[run]\npeers = 8\n[inner]\nsteps = 30\n"
      "[outer]\nlearning_rate = 0.8\n");
  EXPECT_TRUE(OuterSettingOf(penalty).gap_penalty);
}

TEST(OuterSettingTest, WithOtherPeersOnlyDefaultsFollow) {
  // Broken: `atoll plan --peers` would pass over a rate that the file gives, or warn of one that it
  // does not give.
  const Config set = ConfigOf(RunText(3, 30, "muon", "sync", "learning_rate = 0.09\n"));
  EXPECT_EQ(WithPeers(set, 16).outer.learning_rate, 0.09);
  EXPECT_EQ(WithPeers(set, 16).outer.momentum, 0.9);  // that of the row for 16
  EXPECT_EQ(set.outer.momentum, 0.8);                 // that of the row for 2
  EXPECT_EQ(WithPeers(set, 16).run.peers, 16u);
  EXPECT_EQ(AdviseOuterStep(OuterSettingOf(WithPeers(set, 16))).size(), 1u);
}

TEST(OuterSettingTest, RunsWithoutALossOrAKnownNumberOfStepsGetNone) {
  // Broken: a stub would be told to learn better, or a party that makes whole passes over its data
  // would be compared with runs of as many steps as its schedule counts.
  const std::string high = "[outer]\nlearning_rate = 50\n";
  const std::string stub = "[model]\nkind = \"stub\"\nparameters = 100000\n";
  EXPECT_THAT(AdviseOuterStep(OuterSettingOf(ConfigOf(high + stub))), IsEmpty());
  Config epochs = ConfigOf(high);
  EXPECT_EQ(AdviseOuterStep(OuterSettingOf(epochs)).size(), 1u);
  epochs.inner.epochs = 1;
  EXPECT_THAT(AdviseOuterStep(OuterSettingOf(epochs)), IsEmpty());
}

TEST(OuterSettingTest, ShippedConfigsGetNone) {
  // Broken: a file that users are told to run would be warned of.
  if (!std::filesystem::exists(ATOLL_SHIPPED_CONFIGS)) GTEST_SKIP() << "no configs folder";
  for (const char* name : {"quickstart.toml", "lora-chat.toml"}) {
    const absl::StatusOr<Config> config =
        LoadConfig(absl::StrCat(ATOLL_SHIPPED_CONFIGS, "/", name), ConfigUse::kAny);
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_FALSE(OuterSettingOf(*config).rule.empty()) << name;
    EXPECT_THAT(AdviseOuterStep(OuterSettingOf(*config)), IsEmpty()) << name;
  }
}

}  // namespace
}  // namespace atolld
