// What goes with a mode, and what does not: [mode] and the outer rules for late updates.
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

std::string ModeError(const std::string& text) { return ConfigFile().ErrorOf(text); }

std::string AsyncError(const std::string& text) {
  return ModeError(absl::StrCat("[mode]\nkind = \"async\"\n", text));
}

TEST(AsyncConfig, WaitsForOneUpdateUnlessTheFileSaysMore) {
  // Broken: an async run would wait for half of its peers, as a synchronous one does, or diverge by
  // the default rule.
  const absl::StatusOr<Config> one = ConfigFile().Load(
      "[run]\npeers = 16\n[mode]\nkind = \"async\"\nage_decay = 0.5\nage_cutoff = 9\n");
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_EQ(one->run.quorum, 1u);
  EXPECT_EQ(one->outer.rule, "delayed_nesterov");
  EXPECT_EQ(one->outer.buffer, 16u);
  const v1::ModeSpec mode = MakeRunSpec(*one).mode();
  EXPECT_EQ(mode.kind(), "async");
  EXPECT_EQ(absl::bit_cast<float>(mode.age_decay_bits()), 0.5f);
  EXPECT_EQ(mode.age_cutoff(), 9u);
  const absl::StatusOr<Config> four =
      ConfigFile().Load("[run]\npeers = 16\nquorum = 4\n[mode]\nkind = \"async\"\n");
  ASSERT_TRUE(four.ok()) << four.status();
  EXPECT_EQ(four->run.quorum, 4u);
  const auto rule = [](const std::string& text) {
    const absl::StatusOr<Config> config = ConfigFile().Load(text);
    return config.ok() ? config->outer.rule : std::string(config.status().message());
  };
  EXPECT_EQ(rule("[mode]\nkind = \"async\"\n[outer]\nrule = \"nesterov\"\n"), "nesterov");
  EXPECT_EQ(rule("[mode]\nkind = \"eager\"\n"), "nesterov");
}

TEST(AsyncConfig, RefusesWhatNeedsSeveralUpdatesOrTheSameOnes) {
  // Broken: such a run would wait for ever, or promise what it does not keep.
  EXPECT_THAT(AsyncError("[data]\nprivate = true\n[privacy]\nmasked = true\n"),
              HasSubstr("[privacy] masked and [mode] kind 'async': masks can be removed only"));
  EXPECT_THAT(AsyncError("[data]\nprivate = true\n[privacy]\nclip = 1\nnoise = 1\n"),
              HasSubstr("[privacy] clip and [mode] kind 'async'"));
  EXPECT_THAT(AsyncError("[inner]\noptimizer = \"sgd\"\ncontrol_variates = true\n"),
              HasSubstr("[inner] control_variates and [mode] kind 'async'"));
  EXPECT_THAT(AsyncError("[federation]\nparticipation = 0.5\n"),
              HasSubstr("[federation] participation and [mode] kind 'async'"));
  EXPECT_THAT(AsyncError("[federation]\ndrop = 0.5\n"), HasSubstr("[federation] drop and [mode]"));
  const std::string krum = "[exchange]\naggregation = \"krum\"\nfaulty = 1\n[run]\npeers = 8\n";
  EXPECT_THAT(AsyncError(krum), HasSubstr("'krum' needs 5 updates in each entry; with [run] quorum "
                                          "= 5 an entry waits for that many"));
  EXPECT_EQ(AsyncError(krum + "quorum = 5\n"), "");
}

TEST(AsyncConfig, GoesWithEachPace) {
  // Broken: steps by speed would be refused where they help most.
  EXPECT_EQ(AsyncError("[inner]\npace = \"auto\"\n"), "");
  EXPECT_EQ(AsyncError("[inner]\npace = \"time\"\ntime = \"1m\"\n"), "");
}

TEST(LateRuleConfig, HasDefaultsOfItsOwn) {
  // Broken: N would be 1, which is the rule that diverges, or a rate would be another rule's.
  const absl::StatusOr<Config> delayed = ConfigFile().Load(
      "[run]\npeers = 16\n[mode]\nkind = \"async\"\n[outer]\nrule = \"delayed_nesterov\"\n");
  ASSERT_TRUE(delayed.ok()) << delayed.status();
  EXPECT_EQ(MakeRunSpec(*delayed).outer().buffer(), 16u);
  EXPECT_EQ(delayed->outer.learning_rate, 1);  // of 16 peers
  EXPECT_EQ(delayed->outer.momentum, 0.9);
  const absl::StatusOr<Config> said =
      ConfigFile().Load("[run]\npeers = 16\n[outer]\nrule = \"delayed_nesterov\"\nbuffer = 4\n");
  ASSERT_TRUE(said.ok()) << said.status();
  EXPECT_EQ(MakeRunSpec(*said).outer().buffer(), 4u);
  const absl::StatusOr<Config> cgad =
      ConfigFile().Load("[mode]\nkind = \"async\"\nage_decay = 0.1\n[outer]\nrule = \"cgad\"\n");
  ASSERT_TRUE(cgad.ok()) << cgad.status();
  EXPECT_EQ(cgad->outer.learning_rate, 0.01);
  const v1::OuterSpec outer = MakeRunSpec(*cgad).outer();
  EXPECT_NE(outer.adaptivity_bits(), 0u);
  EXPECT_NE(outer.beta2_bits(), 0u);
  EXPECT_EQ(outer.buffer(), 0u);
}

TEST(LateRuleConfig, RefusesKeysThatDoNothing) {
  // Broken: a key would be ignored without a word.
  EXPECT_THAT(ModeError("[outer]\nbuffer = 4\n"),
              HasSubstr("[outer] buffer is for rule 'delayed_nesterov' alone, not 'nesterov'"));
  EXPECT_THAT(AsyncError("[outer]\nrule = \"cgad\"\n"),
              HasSubstr("rule 'cgad' needs [mode] age_decay or age_cutoff"));
  const std::string clip = "[mode]\nkind = \"delayed\"\nmomentum_clip = 1\n";
  EXPECT_EQ(ModeError(clip), "");
  EXPECT_THAT(ModeError(clip + "[outer]\nrule = \"adam\"\n"),
              HasSubstr("momentum_clip needs an outer rule with momentum"));
  EXPECT_THAT(ModeError("[mode]\nage_decay = 1\n"), HasSubstr("[mode] age_decay is for kind"));
}

TEST(LateRuleConfig, CountsUpdatesOfAllValuesAlone) {
  // Broken: momentum would be due in the entries of one fragment, and never in another's.
  const std::string rule = "[outer]\nrule = \"delayed_nesterov\"\n";
  const std::string streaming = "[mode]\nkind = \"streaming\"\n";
  EXPECT_THAT(
      ModeError(streaming + "fragments = 2\n" + rule),
      HasSubstr("[outer] rule must be another than 'delayed_nesterov' with [mode] fragments "
                "= 2: its momentum moves as soon as [outer] buffer updates"));
  EXPECT_EQ(ModeError(streaming + "fragments = 1\n" + rule), "");
}

TEST(LateRuleConfig, RefusesACutoffThatNoDelayedUpdatePasses) {
  // Broken: every update but the first would be trained in vain.
  const std::string delayed = "[mode]\nkind = \"delayed\"\n";
  EXPECT_THAT(ModeError(delayed + "age_cutoff = 1\n"),
              HasSubstr("[mode] age_cutoff must be 0 or at least 2 with kind 'delayed'"));
  EXPECT_EQ(ModeError(delayed + "age_cutoff = 2\n"), "");
  EXPECT_EQ(AsyncError("age_cutoff = 1\n"), "") << "one that has missed nothing counts";
}

}  // namespace
}  // namespace atolld
