// [privacy], and what of the rest of a run it refuses; and the outer rules' defaults.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/base/casts.h"
#include "absl/strings/str_cat.h"
#include "daemon/config/run_record.h"
#include "tests/unit/daemon/config/config_file.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

// A run that privacy takes as it is; `lines` follow [privacy].
std::string PrivateRun(const std::string& lines, const std::string& others = "") {
  return absl::StrCat("[model]\nkind = \"stub\"\nparameters = 5000\n[run]\npeers = 8\n",
                      "[data]\nprivate = true\n[federation]\nweights = \"equal\"\n", others,
                      "[privacy]\n", lines);
}

std::string PrivacyError(const std::string& lines, const std::string& others = "") {
  return ConfigFile().ErrorOf(PrivateRun(lines, others));
}

TEST(PrivacyConfig, PartiesAndSamplingFollowTheFederation) {
  // Broken: each party would add the noise of another federation.
  const auto spec = [](const std::string& lines, const std::string& others) {
    const absl::StatusOr<Config> config =
        ConfigFile().Load(PrivateRun(absl::StrCat("clip = 0.5\nnoise = 2\n", lines), others));
    EXPECT_TRUE(config.ok()) << config.status();
    return config.ok() ? MakeRunSpec(*config) : v1::RunSpec();
  };
  const v1::RunSpec all = spec("", "");
  EXPECT_EQ(all.privacy().parties(), 8u);
  EXPECT_EQ(absl::bit_cast<float>(all.privacy().sampling_bits()), 1.0f);
  EXPECT_EQ(absl::bit_cast<float>(all.privacy().clip_bits()), 0.5f);
  EXPECT_EQ(all.privacy().place(), "party");
  EXPECT_EQ(all.exchange().clip_bits(), 0u);  // by itself
  const v1::RunSpec some = spec("", "[parties]\nhosted = 100\na_round = 20\n");
  EXPECT_EQ(some.privacy().parties(), 160u);
  EXPECT_FLOAT_EQ(absl::bit_cast<float>(some.privacy().sampling_bits()), 0.2f);
  // Who of the peers takes part is in the log: no draw of those is a secret.
  const v1::RunSpec half = spec("", "participation = 0.5\n[parties]\nhosted = 100\na_round = 20\n");
  EXPECT_EQ(half.privacy().parties(), 80u);
  EXPECT_FLOAT_EQ(absl::bit_cast<float>(half.privacy().sampling_bits()), 0.2f);
  const v1::RunSpec said = spec("parties = 30\nsampling = 1\n", "[parties]\nhosted = 100\n");
  EXPECT_EQ(said.privacy().parties(), 30u);
  EXPECT_EQ(absl::bit_cast<float>(said.privacy().sampling_bits()), 1.0f);
  EXPECT_FALSE(spec("", "").privacy().masked());
  Config none;
  EXPECT_FALSE(MakeRunSpec(none).has_privacy());  // as runs were before there was any
}

TEST(PrivacyConfig, WhatAnUpdateWouldEscapeByIsRefused) {
  // Broken: a party could move the mean by more than its noise covers, and nobody would know.
  const std::string on = "clip = 1\nnoise = 2\n";
  EXPECT_EQ(PrivacyError(on), "");
  EXPECT_THAT(PrivacyError(on, "[exchange]\nerror_feedback = true\n"),
              HasSubstr("x.toml:11: [exchange] error_feedback must be false"));
  EXPECT_THAT(PrivacyError(on, "[exchange]\naggregation = \"median\"\n"),
              HasSubstr("[exchange] aggregation must be 'mean'"));
  EXPECT_THAT(PrivacyError(on, "[exchange]\nclip = 1\n"), HasSubstr("[exchange] clip must be 0"));
  EXPECT_THAT(PrivacyError(on, "normalised = true\n"),
              HasSubstr("[federation] normalised must be false"));
  EXPECT_THAT(ConfigFile().ErrorOf("[privacy]\nclip = 1\nnoise = 2\n"),
              HasSubstr("x.toml:2: [data] private must be true with [privacy] clip"));
  EXPECT_THAT(ConfigFile().ErrorOf("[model]\nkind = \"stub\"\nparameters = 5\n[privacy]\nclip = 1\n"
                                   "noise = 2\n"),
              HasSubstr("x.toml:5: [federation] weights must be 'equal'"));
}

TEST(PrivacyConfig, HalfOfItIsRefused) {
  // Broken: who forgets a key would believe to be hidden.
  EXPECT_THAT(PrivacyError("noise = 2\n"),
              HasSubstr("x.toml:11: [privacy] noise needs [privacy] clip above 0"));
  EXPECT_THAT(PrivacyError("epsilon = 2\n"), HasSubstr("[privacy] epsilon needs"));
  EXPECT_THAT(PrivacyError("clip = 1\n"), HasSubstr("[privacy] noise must be above 0"));
  EXPECT_THAT(PrivacyError("clip = 1\nnoise = 2\nplace = \"mean\"\n"),
              HasSubstr("[privacy] place must be 'party': peers that audit"));
  EXPECT_THAT(PrivacyError("clip = 1\nnoise = 2\nquantile = 0.5\n"),
              HasSubstr("needs more than 10 x noise parties in a round, above 20, not 8"));
  EXPECT_EQ(PrivacyError("clip = 1\nnoise = 0.7\nquantile = 0.5\n"), "");
}

TEST(PrivacyConfig, ASamplingOrADeltaThatPromisesTooMuchIsRefused) {
  // Broken: epsilon would be told as small as somebody wants it to be.
  const std::string on = "clip = 1\nnoise = 2\n";
  const std::string fifth = "[parties]\nhosted = 100\na_round = 20\n";
  EXPECT_EQ(PrivacyError(on + "sampling = 0.2\n", fifth), "");
  EXPECT_THAT(PrivacyError(on + "sampling = 0.1\n", fifth),
              HasSubstr("[privacy] sampling must be at least 0.2, the share of its parties that a "
                        "peer asks in a round ([parties] a_round), not 0.1"));
  EXPECT_THAT(PrivacyError(on + "delta = 1\n"),
              HasSubstr("[privacy] delta must be a number above 0 and below 1"));
  EXPECT_THAT(PrivacyError(on + "delta = 0.2\n"),
              HasSubstr("[privacy] delta must be below one over the number of parties, 0.125 with "
                        "8 of them in a round, not 0.2"));
}

TEST(PrivacyConfig, ABudgetBearsTheFirstRound) {
  // Broken: a run would be set up only to be sealed at version 0.
  EXPECT_THAT(PrivacyError("clip = 1\nnoise = 1\nepsilon = 1\n"),
              HasSubstr("what one round with only 5 updates (a quorum of 5) spends at noise = 1 "
                        "and delta = 1e-05, not 1"));
  EXPECT_THAT(PrivacyError("clip = 1\nnoise = 1\nepsilon = 1\n", "participation = 0.5\n"),
              HasSubstr("with only 3 updates (a quorum of 5)"));
  EXPECT_EQ(PrivacyError("clip = 1\nnoise = 1\nepsilon = 10\n"), "");
}

TEST(OuterConfig, EachRuleHasRatesOfItsOwn) {
  // Broken: `rule = "adam"` alone would move every parameter by 0.7 a round.
  const struct {
    const char* rule;
    double learning_rate, momentum;
  } rules[] = {{"average", 1, 0},   {"momentum", 1, 0.9}, {"adagrad", 0.01, 0},
               {"adam", 0.01, 0.9}, {"yogi", 0.01, 0.9},  {"nesterov", 0.4, 0.9}};
  for (const auto& one : rules) {
    const absl::StatusOr<Config> config =
        ConfigFile().Load(absl::StrCat("[outer]\nrule = \"", one.rule, "\"\n"));
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_EQ(config->outer.learning_rate, one.learning_rate) << one.rule;
    EXPECT_EQ(config->outer.momentum, one.momentum) << one.rule;
    const v1::OuterSpec spec = MakeRunSpec(*config).outer();
    const bool adaptive = one.learning_rate == 0.01;
    EXPECT_EQ(absl::bit_cast<float>(spec.adaptivity_bits()), adaptive ? 1e-3f : 0) << one.rule;
    EXPECT_EQ(spec.beta2_bits() != 0,
              one.rule == std::string("adam") || one.rule == std::string("yogi"));
  }
}

}  // namespace
}  // namespace atolld
