// What the choice of a codec brings with it.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "compression/wire_codec.h"
#include "daemon/config.h"

namespace atolld {
namespace {

// What a file with these lines in [exchange] says.
Config::Exchange ExchangeOf(const std::string& lines) {
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / absl::StrCat("atoll-codec-", getpid(), ".toml");
  std::ofstream(path) << "[exchange]\n" << lines;
  const absl::StatusOr<Config> config = LoadConfig(path.string(), ConfigUse::kAny);
  std::filesystem::remove(path);
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

TEST(CodecConfig, WhatAFileSaysStands) {
  // Broken: defaults of a codec would overrule the file.
  EXPECT_FALSE(ExchangeOf("codec = \"topk\"\nerror_feedback = false\n").error_feedback);
  EXPECT_EQ(ExchangeOf("codec = \"topk\"\nfeedback_decay = 0.5\n").feedback_decay, 0.5);
  EXPECT_EQ(ExchangeOf("codec = \"int4\"\nrounding = \"stochastic\"\n").rounding, "stochastic");
}

}  // namespace
}  // namespace atolld
