// What does not go with rounds that overlap.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "daemon/config/config.h"
#include "tests/unit/daemon/config/config_file.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

constexpr char kOwnData[] = "[data]\npath = \".\"\nprivate = true\n";

std::string ErrorInMode(const std::string& kind, const std::string& rest) {
  return ConfigFile().ErrorOf(absl::StrCat(kOwnData, "[mode]\nkind = \"", kind, "\"\n", rest),
                              ConfigUse::kAny);
}

TEST(ModePipeline, WhatSupposesThatPeersWaitIsRefusedByName) {
  // Broken: a run would begin whose draws, masks or variates are of rounds that have begun by then.
  const std::string sgd =
      "[inner]\noptimizer = \"sgd\"\nschedule = \"constant\"\nwarmup_steps = 0\n";
  for (const char* kind : {"delayed", "eager", "streaming"}) {
    EXPECT_EQ(ErrorInMode(kind, ""), "") << kind;
    const std::string needs = absl::StrCat("[mode] kind '", kind, "' needs ");
    EXPECT_THAT(ErrorInMode(kind, "[federation]\nparticipation = 0.5\n"),
                HasSubstr(needs + "[federation] participation = 1 and drop = 0"));
    EXPECT_THAT(ErrorInMode(kind, "[federation]\ndrop = 0.1\n"),
                HasSubstr(needs + "[federation] participation = 1 and drop = 0"));
    EXPECT_THAT(ErrorInMode(kind, "[parties]\nhosted = 2\n"),
                HasSubstr(needs + "[parties] hosted = 0"));
    EXPECT_THAT(ErrorInMode(kind, sgd + "control_variates = true\n"),
                HasSubstr(needs + "[inner] control_variates = false"));
    EXPECT_THAT(ErrorInMode(kind, "[privacy]\nmasked = true\n"),
                HasSubstr(needs + "[privacy] masked = false"));
  }
  EXPECT_EQ(ErrorInMode("sync", "[federation]\nparticipation = 0.5\n"), "");
}

}  // namespace
}  // namespace atolld
