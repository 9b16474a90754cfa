// [exchange] and what hangs on it: codecs and what they bring with them, and the rule by which
// updates become one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compression/wire_codec.h"
#include "daemon/config/run_record.h"
#include "tests/unit/daemon/config/config_file.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<Config> LoadText(const std::string& text) { return ConfigFile().Load(text); }

std::string ErrorOf(const std::string& text) { return ConfigFile().ErrorOf(text); }

absl::StatusOr<Config> LoadExchange(const std::string& lines) {
  return LoadText(absl::StrCat("[exchange]\n", lines));
}

// What a file with these lines in [exchange] says.
Config::Exchange ExchangeOf(const std::string& lines) {
  const absl::StatusOr<Config> config = LoadExchange(lines);
  EXPECT_TRUE(config.ok()) << config.status();
  return config.ok() ? config->exchange : Config::Exchange();
}

TEST(CodecConfig, EveryNameIsTaken) {
  // Broken: a codec could not be chosen.
  for (const std::string& name : WireCodecNames()) {
    EXPECT_EQ(ExchangeOf("codec = \"" + name + "\"\n").codec, name);
  }
}

TEST(CodecConfig, CodecsHaveTheFeedbackThatTheyNeed) {
  // Broken: `codec = "topk"` alone would drop most of every update for good.
  EXPECT_FALSE(ExchangeOf("codec = \"int4\"\n").error_feedback);
  EXPECT_TRUE(ExchangeOf("codec = \"int2\"\n").error_feedback);
  EXPECT_EQ(ExchangeOf("codec = \"int2\"\n").feedback_decay, 1);
  EXPECT_TRUE(ExchangeOf("codec = \"topk+zstd\"\n").error_feedback);
  EXPECT_EQ(ExchangeOf("codec = \"topk+zstd\"\n").feedback_decay, 0.95);
  EXPECT_FALSE(ExchangeOf("slow_codec = \"int4\"\n").error_feedback);
  EXPECT_TRUE(ExchangeOf("slow_codec = \"topk\"\n").error_feedback);
  EXPECT_EQ(ExchangeOf("slow_codec = \"topk\"\n").feedback_decay, 1);
}

TEST(CodecConfig, SlowLinesMayHaveACodecOfTheirOwn) {
  // Broken: the run's record would not say what peers behind slow lines send.
  Config config;
  config.exchange = ExchangeOf("slow_codec = \"int4\"\n");
  EXPECT_EQ(MakeRunSpec(config).exchange().codec(), "int8");
  EXPECT_EQ(MakeRunSpec(config).exchange().slow_codec(), "int4");
  config.exchange = ExchangeOf("codec = \"int8+zstd\"\nslow_codec = \"topk+zstd\"\n");
  EXPECT_EQ(MakeRunSpec(config).exchange().slow_codec(), "topk");
  EXPECT_TRUE(config.exchange.error_feedback);
}

TEST(CodecConfig, LevelsMayHaveCodecsOfTheirOwn) {
  // Broken: the run would be another than the file says, or the same run have two records.
  const auto spec = [](const std::string& lines) {
    Config config;
    config.exchange = ExchangeOf(lines);
    return MakeRunSpec(config).exchange();
  };
  const v1::ExchangeSpec two = spec("codec = \"bf16\"\nupper_codec = \"int4+zstd\"\n");
  EXPECT_EQ(two.codec(), "bf16");
  EXPECT_FALSE(two.zstd());
  EXPECT_EQ(two.upper_codec(), "int4");
  EXPECT_TRUE(two.upper_zstd());
  EXPECT_FALSE(two.error_feedback());
  for (const char* upper : {"", "upper_codec = \"\"\n", "upper_codec = \"int8+zstd\"\n"}) {
    const v1::ExchangeSpec one = spec(absl::StrCat("codec = \"int8+zstd\"\n", upper));
    EXPECT_EQ(one.upper_codec(), "") << upper;
    EXPECT_FALSE(one.upper_zstd()) << upper;
  }
  EXPECT_TRUE(ExchangeOf("codec = \"topk\"\nupper_codec = \"int8\"\n").error_feedback);
  EXPECT_FALSE(ExchangeOf("codec = \"int8\"\nupper_codec = \"int2\"\n").error_feedback);
  const std::string rounded = "upper_codec = \"int4\"\nrounding = \"stochastic\"\n";
  EXPECT_EQ(ExchangeOf("codec = \"bf16\"\n" + rounded).rounding, "stochastic");
}

TEST(CodecConfig, PairsThatMakeNoSenseAreRefused) {
  // Broken: a run whose means are larger than its updates, or lose most of what was sent.
  const std::pair<const char*, const char*> cases[] = {
      {"upper_codec = \"topk\"\n",
       ":2: [exchange] upper_codec: 'topk' does not encode means of 'int8' updates: it keeps every "
       "value of a mean that is not zero, which here is nearly all"},
      {"codec = \"topk\"\nupper_codec = \"int2\"\n",
       ":3: [exchange] upper_codec: 'int2' does not encode means of 'topk' updates: it has no code "
       "that is surely zero, as most values of such a mean are"},
      {"upper_codec = \"bf61\"\n", ":2: "},
      {"slow_codec = \"itn4\"\n", ":2: "},
      {"slow_codec = \"int8\"\n", ":2: [exchange] slow_codec: 'int8' is what all others use too"},
      {"codec = \"int4\"\nslow_codec = \"int8\"\n",
       ":3: [exchange] slow_codec: 'int8' is no smaller than 'int4'"},
      {"slow_codec = \"int4+zstd\"\n",
       ":2: [exchange] slow_codec must be a codec without '+zstd' beside codec 'int8', not "
       "'int4+zstd': updates are compressed once more by all or by nobody"},
  };
  for (const auto& [lines, said] : cases) {
    const absl::StatusOr<Config> config = LoadExchange(lines);
    EXPECT_TRUE(absl::IsInvalidArgument(config.status())) << lines;
    EXPECT_THAT(std::string(config.status().message()), HasSubstr(said));
  }
}

TEST(CodecConfig, WhatAFileSaysStands) {
  // Broken: defaults of a codec would overrule the file.
  EXPECT_FALSE(ExchangeOf("codec = \"topk\"\nerror_feedback = false\n").error_feedback);
  EXPECT_EQ(ExchangeOf("codec = \"topk\"\nfeedback_decay = 0.5\n").feedback_decay, 0.5);
  EXPECT_EQ(ExchangeOf("codec = \"int4\"\nrounding = \"stochastic\"\n").rounding, "stochastic");
}

TEST(AuditConfigTest, TheShareIsTheRuns) {
  // Broken: what a file asks for would not be audited, or a run without audits could not be had.
  Config config;
  config.run.id = "r";
  EXPECT_EQ(MakeRunSpec(config).exchange().audit_share_bits(), 0x3d800000u);
  config.exchange.audit_share = 0;
  EXPECT_EQ(MakeRunSpec(config).exchange().audit_share_bits(), 0u);
}

TEST(AggregationConfig, UpdatesAreScaledDownToTheMedianUnlessTheFileSaysOtherwise) {
  // Broken: one peer could carry the mean of a run away that was set up with the defaults; or a
  // plain mean could not be had.
  const auto clip_of = [](const std::string& lines) {
    const uint32_t bits = MakeRunSpec(LoadText(lines).value()).exchange().clip_bits();
    float clip;
    std::memcpy(&clip, &bits, sizeof(clip));
    return clip;
  };
  EXPECT_EQ(clip_of(""), 1.0f);
  EXPECT_EQ(clip_of("[exchange]\nclip = 2.5\n"), 2.5f);
  EXPECT_EQ(clip_of("[exchange]\nclip = 0\n"), 0.0f);
}

TEST(AggregationConfig, TheSpecSaysTheRule) {
  // Broken: peers would average by the mean whatever the file says.
  const v1::RunSpec spec = MakeRunSpec(
      LoadText("[run]\npeers = 5\n[exchange]\naggregation = \"trimmed_mean\"\nfaulty = 2\n")
          .value());
  EXPECT_EQ(spec.exchange().aggregation(), "trimmed_mean");
  EXPECT_EQ(spec.exchange().faulty(), 2u);
  EXPECT_EQ(MakeRunSpec(LoadText("").value()).exchange().aggregation(), "");
}

TEST(AggregationConfig, WhatARuleNeedsIsSaidAtOnce) {
  // Broken: a run would be set up whose rounds can never be averaged, and would only wait.
  const std::string trimmed = "[exchange]\naggregation = \"trimmed_mean\"\nfaulty = 1\n";
  EXPECT_THAT(ErrorOf("[run]\npeers = 2\n" + trimmed),
              HasSubstr(":2: [run] peers must be at least 3 with aggregation 'trimmed_mean' and "
                        "faulty = 1, not 2"));
  EXPECT_THAT(ErrorOf("[run]\npeers = 6\nquorum = 2\n" + trimmed),
              HasSubstr(":3: [run] quorum must be at least 3"));
  EXPECT_TRUE(LoadText("[run]\npeers = 3\n" + trimmed).ok());
  EXPECT_THAT(ErrorOf("[exchange]\naggregation = \"krum\"\n"),
              HasSubstr("[exchange] aggregation: the rule krum takes faulty from 1"));
  EXPECT_THAT(ErrorOf("[exchange]\naggregation = \"trimed_mean\"\n"), HasSubstr("trimmed_mean"));
  EXPECT_THAT(ErrorOf("[exchange]\nfaulty = 1\n"), HasSubstr("mean takes faulty from 0 to 0"));
  EXPECT_THAT(ErrorOf("[exchange]\naggregation = \"centred_clipping\"\nclip = 0\n"),
              HasSubstr(":3: [exchange] clip must be above 0"));
  EXPECT_THAT(ErrorOf("[exchange]\naggregation = \"median\"\nplan = \"regions\"\n"),
              HasSubstr("cannot be judged"));
  EXPECT_THAT(ErrorOf("[membership]\noffences = 5\noffence_rounds = 4\n"),
              HasSubstr("offences must be at most offence_rounds (4), not 5"));
  EXPECT_THAT(ErrorOf("[membership]\noutsized = 1.0\n"),
              HasSubstr("outsized must be 0 or above 1, not 1"));
}

// Broken: peers that shout would never be left out unless somebody had thought of it; or, with
// error feedback, honest ones would be.
TEST(AggregationConfig, LengthIsAnOffenceUnlessFeedbackMayExplainIt) {
  EXPECT_EQ(LoadText("")->membership.outsized, 8);
  EXPECT_EQ(LoadText("[exchange]\nerror_feedback = true\n")->membership.outsized, 0);
  Config slices;
  slices.model.lora_slice = 4;
  EXPECT_EQ(DefaultOutsized(slices), 0);
  EXPECT_EQ(
      LoadText("[exchange]\ncodec = \"topk+zstd\"\nerror_feedback = false\n")->membership.outsized,
      0);
  EXPECT_EQ(
      LoadText("[exchange]\ncodec = \"topk\"\n[membership]\noutsized = 9.0\n")->membership.outsized,
      9);
}

}  // namespace
}  // namespace atolld
