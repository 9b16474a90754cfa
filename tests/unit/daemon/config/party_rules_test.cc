// Parties that a peer hosts, and the variates that parties keep.
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "daemon/config/config.h"
#include "tests/unit/daemon/config/config_file.h"

namespace atolld {
namespace {

const char kPrivateData[] = "[data]\npath = \".\"\nprivate = true\n";

std::string PartyErrorOf(const std::string& text, ConfigUse use = ConfigUse::kAny) {
  return ConfigFile().ErrorOf(text, use);
}

TEST(PartyRules, PartiesAreHostedWhereTheyCanBe) {
  // Broken: a run would begin and its worker refuse the first round, hours after the mistake.
  EXPECT_EQ(PartyErrorOf(absl::StrCat(kPrivateData, "[parties]\nhosted = 100\na_round = 20\n")),
            "");
  EXPECT_EQ(PartyErrorOf("[data]\npath = \".\"\n[parties]\nhosted = 3\n"),
            "x.toml:4: [parties] hosted needs [data] private = true: a party has data of its own, "
            "and a run's common data is leased to peers");
  EXPECT_EQ(PartyErrorOf(absl::StrCat(kPrivateData, "[parties]\nhosted = 3\na_round = 4\n")),
            "x.toml:6: [parties] a_round must be at most hosted (3), not 4");
  EXPECT_EQ(PartyErrorOf(absl::StrCat(kPrivateData, "[parties]\nkeep = true\n")),
            "x.toml:5: [parties] keep is for a peer that hosts parties; set [parties] hosted, or "
            "leave it out");
  EXPECT_EQ(PartyErrorOf(absl::StrCat(kPrivateData, "[parties]\nfirst = 1000000\nhosted = 2\n")),
            "x.toml:5: [parties] first and hosted lead to party 1000001; the highest is 1000000");
}

TEST(PartyRules, PartiesTrainInTurnFromOneState) {
  // Broken: the second of a peer's parties would train from where the first one ended, or be told
  // too late whether its last update was taken.
  const std::string hosted = absl::StrCat(kPrivateData, "[parties]\nhosted = 3\n[mode]\nkind = ");
  for (const char* mode : {"streaming", "eager", "delayed"}) {
    EXPECT_EQ(PartyErrorOf(absl::StrCat(hosted, "\"", mode, "\"\n")),
              absl::StrCat("x.toml:7: [mode] kind '", mode,
                           "' needs [parties] hosted = 0: virtual parties take turns on one "
                           "worker, which goes on from its own last round"));
  }
  EXPECT_EQ(PartyErrorOf(absl::StrCat(hosted, "\"async\"\n")), "");
}

// What SCAFFOLD needs, with one line in place of another.
std::string ControlErrorOf(const std::string& inner, const std::string& rest) {
  return PartyErrorOf(absl::StrCat("[inner]\ncontrol_variates = true\n", inner, rest));
}

TEST(PartyRules, ControlVariatesNeedWhatTheyAreMadeOf) {
  // Broken: the common variate would be divided by a rate that no party trained at, or be made of
  // what is no mean.
  const std::string inner = "optimizer = \"sgd\"\nschedule = \"constant\"\nwarmup_steps = 0\n";
  EXPECT_EQ(ControlErrorOf(inner, kPrivateData), "");
  const std::string eager = absl::StrCat(kPrivateData, "[mode]\nkind = \"eager\"\n");
  EXPECT_EQ(ControlErrorOf(inner, eager),
            "x.toml:10: [mode] kind 'eager' needs [inner] control_variates = false: a party's own "
            "variate moves when an entry has taken its update, and the next training has begun by "
            "then");
  EXPECT_EQ(ControlErrorOf("schedule = \"constant\"\nwarmup_steps = 0\n", kPrivateData),
            "x.toml:2: [inner] control_variates needs optimizer 'sgd': only there is what a party "
            "moved by its rate times the sum of its gradients");
  EXPECT_EQ(ControlErrorOf("optimizer = \"sgd\"\nschedule = \"constant\"\n", kPrivateData),
            "x.toml:2: [inner] control_variates needs schedule 'constant' and warmup_steps 0: "
            "variates are gradients, which updates are divided by one rate for");
  const auto holds = [](const std::string& error, const std::string& part) {
    return error.find(part) != std::string::npos;
  };
  EXPECT_TRUE(holds(ControlErrorOf(inner, ""), "[data] private = true"));
  EXPECT_TRUE(holds(ControlErrorOf(inner + "epochs = 1\n", kPrivateData), "needs epochs 0"));
  EXPECT_EQ(ControlErrorOf(inner + "epochs = 1\n",
                           absl::StrCat(kPrivateData, "[federation]\nnormalised = true\n")),
            "");
  EXPECT_TRUE(holds(
      ControlErrorOf(inner, absl::StrCat(kPrivateData, "[exchange]\nerror_feedback = true\n")),
      "needs error_feedback off"));
  EXPECT_TRUE(holds(ControlErrorOf(inner, absl::StrCat(kPrivateData, "[parties]\nhosted = 3\n")),
                    "needs [parties] keep = true"));
}

}  // namespace
}  // namespace atolld
