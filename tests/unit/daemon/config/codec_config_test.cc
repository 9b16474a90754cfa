// What the choice of a codec brings with it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compression/wire_codec.h"
#include "daemon/config/config.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<Config> Load(const std::string& lines) {
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / absl::StrCat("atoll-codec-", getpid(), ".toml");
  std::ofstream(path) << "[exchange]\n" << lines;
  absl::StatusOr<Config> config = LoadConfig(path.string(), ConfigUse::kAny);
  std::filesystem::remove(path);
  return config;
}

// What a file with these lines in [exchange] says.
Config::Exchange ExchangeOf(const std::string& lines) {
  const absl::StatusOr<Config> config = Load(lines);
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
      {"codec = \"bf16\"\nupper_codec = \"fp16\"\nrounding = \"stochastic\"\n",
       ":4: [exchange] rounding must be 'nearest' with codec 'bf16/fp16', which has no other, not "
       "'stochastic'"},
  };
  for (const auto& [lines, said] : cases) {
    const absl::StatusOr<Config> config = Load(lines);
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

}  // namespace
}  // namespace atolld
