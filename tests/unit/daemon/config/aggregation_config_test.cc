// The rule by which updates become one, and what it asks of the run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "daemon/config/config.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<Config> Load(const std::string& lines) {
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / absl::StrCat("atoll-rule-", getpid(), ".toml");
  std::ofstream(path) << lines;
  absl::StatusOr<Config> config = LoadConfig(path.string(), ConfigUse::kAny);
  std::filesystem::remove(path);
  return config;
}

std::string ErrorOf(const std::string& lines) {
  return std::string(Load(lines).status().message());
}

TEST(AggregationConfig, UpdatesAreScaledDownToTheMedianUnlessTheFileSaysOtherwise) {
  // Broken: one peer could carry the mean of a run away that was set up with the defaults; or a
  // plain mean could not be had.
  const auto clip_of = [](const std::string& lines) {
    const uint32_t bits = MakeRunSpec(Load(lines).value()).exchange().clip_bits();
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
      Load("[run]\npeers = 5\n[exchange]\naggregation = \"trimmed_mean\"\nfaulty = 2\n").value());
  EXPECT_EQ(spec.exchange().aggregation(), "trimmed_mean");
  EXPECT_EQ(spec.exchange().faulty(), 2u);
  EXPECT_EQ(MakeRunSpec(Load("").value()).exchange().aggregation(), "");
}

TEST(AggregationConfig, WhatARuleNeedsIsSaidAtOnce) {
  // Broken: a run would be set up whose rounds can never be averaged, and would only wait.
  const std::string trimmed = "[exchange]\naggregation = \"trimmed_mean\"\nfaulty = 1\n";
  EXPECT_THAT(ErrorOf("[run]\npeers = 2\n" + trimmed),
              HasSubstr(":2: [run] peers must be at least 3 with aggregation 'trimmed_mean' and "
                        "faulty = 1, not 2"));
  EXPECT_THAT(ErrorOf("[run]\npeers = 6\nquorum = 2\n" + trimmed),
              HasSubstr(":3: [run] quorum must be at least 3"));
  EXPECT_TRUE(Load("[run]\npeers = 3\n" + trimmed).ok());
  EXPECT_THAT(ErrorOf("[exchange]\naggregation = \"krum\"\n"),
              HasSubstr("[exchange] aggregation: the rule krum takes faulty from 1"));
  EXPECT_THAT(ErrorOf("[exchange]\naggregation = \"trimed_mean\"\n"), HasSubstr("trimmed_mean"));
  EXPECT_THAT(ErrorOf("[exchange]\nfaulty = 1\n"), HasSubstr("mean takes faulty from 0 to 0"));
  EXPECT_THAT(ErrorOf("[exchange]\naggregation = \"centred_clipping\"\nclip = 0\n"),
              HasSubstr(":3: [exchange] clip must be above 0"));
  EXPECT_THAT(ErrorOf("[exchange]\naggregation = \"median\"\nplan = \"regions\"\n"),
              HasSubstr("cannot be judged"));
  EXPECT_THAT(ErrorOf("[exchange]\naggregation = \"centred_clipping\"\nclipping_steps = 2\n"),
              HasSubstr("clipping_steps must be"));
  EXPECT_THAT(ErrorOf("[membership]\noffences = 5\noffence_rounds = 4\n"),
              HasSubstr("offences must be at most offence_rounds (4), not 5"));
  EXPECT_THAT(ErrorOf("[membership]\noutsized = 1.0\n"),
              HasSubstr("outsized must be 0 or above 1, not 1"));
}

// Broken: peers that shout would never be left out unless somebody had thought of it; or, with
// error feedback, honest ones would be.
TEST(AggregationConfig, LengthIsAnOffenceUnlessFeedbackMayExplainIt) {
  EXPECT_EQ(Load("")->membership.outsized, 8);
  EXPECT_EQ(Load("[exchange]\nerror_feedback = true\n")->membership.outsized, 0);
  EXPECT_EQ(
      Load("[exchange]\ncodec = \"topk+zstd\"\nerror_feedback = false\n")->membership.outsized, 0);
  EXPECT_EQ(
      Load("[exchange]\ncodec = \"topk\"\n[membership]\noutsized = 9.0\n")->membership.outsized, 9);
}

}  // namespace
}  // namespace atolld
