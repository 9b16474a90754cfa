// If these fail, "auto" is given a mode that the plan does not say, a run that is made already
// another one than it has, or a config that lacks something no word about it.
#include "daemon/config/mode_resolution.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "tests/unit/daemon/config/config_file.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

// 4,000,000 parameters, four peers, 25 steps of 40 ms.
std::string AutoText(const std::string& mode_keys) {
  return absl::StrCat(
      "[run]\nid = \"r\"\npeers = 4\n[model]\nkind = \"stub\"\nparameters = 4000000\n"
      "[inner]\nsteps = 25\nstep_time = \"40ms\"\n[mode]\nkind = \"auto\"\n",
      mode_keys);
}

Config AutoConfig(const std::string& mode_keys) {
  ConfigFile file;
  const absl::StatusOr<Config> config = file.Load(AutoText(mode_keys));
  EXPECT_TRUE(config.ok()) << config.status();
  return config.ok() ? *config : Config();
}

TEST(ModeResolution, WideLinesNeedNothingAndNarrowOnesAnotherMode) {
  const Config wide = AutoConfig("line_rate = \"10Gbit\"\nround_trip = \"1ms\"\n");
  std::string because;
  const absl::StatusOr<v1::RunSpec> simple = SpecOf(wide, nullptr, &because);
  ASSERT_TRUE(simple.ok()) << simple.status();
  EXPECT_FALSE(simple->has_mode());
  EXPECT_EQ(simple->exchange().codec(), "int8");
  EXPECT_THAT(because, HasSubstr("sync with int8 is predicted to train"));

  const Config narrow =
      AutoConfig("line_rate = \"20Mbit\"\nround_trip = \"1ms\"\nutilisation = 0.9\n");
  const absl::StatusOr<v1::RunSpec> spec = SpecOf(narrow, nullptr, &because);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->mode().kind(), "streaming");
  EXPECT_GE(spec->mode().overlap_steps(), 1u);
  EXPECT_THAT(because, HasSubstr("of 90.0 % asked for"));
  EXPECT_THAT(because, HasSubstr("sync with int8 would train"));
}

TEST(ModeResolution, ARunThatIsMadeKeepsItsMode) {
  std::string because, again;
  const Config narrow = AutoConfig("line_rate = \"20Mbit\"\nutilisation = 0.9\n");
  const absl::StatusOr<v1::RunSpec> made = SpecOf(narrow, nullptr, &because);
  ASSERT_TRUE(made.ok()) << made.status();
  const absl::StatusOr<v1::RunSpec> same = SpecOf(narrow, &*made, &again);
  ASSERT_TRUE(same.ok()) << same.status();
  EXPECT_EQ(same->SerializeAsString(), made->SerializeAsString());
  EXPECT_EQ(again, because);
  // The lines are wider by now, or nobody says any more what they carry.
  for (const std::string keys : {"line_rate = \"10Gbit\"\n", ""}) {
    const absl::StatusOr<v1::RunSpec> later = SpecOf(AutoConfig(keys), &*made, &again);
    ASSERT_TRUE(later.ok()) << later.status();
    EXPECT_EQ(later->SerializeAsString(), made->SerializeAsString());
    EXPECT_EQ(again, "as the plan said when the run was made");
  }
}

TEST(ModeResolution, ACodecThatWasChosenStays) {
  Config config = AutoConfig("line_rate = \"20Mbit\"\nutilisation = 0.5\n");
  config.exchange.codec = "fp16";
  std::string because;
  const absl::StatusOr<v1::RunSpec> spec = SpecOf(config, nullptr, &because);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->exchange().codec(), "fp16");
}

TEST(ModeResolution, ASlowCodecThatIsNoSmallerFallsAway) {
  for (const std::string slow : {"int4", "int2"}) {
    Config config = AutoConfig("line_rate = \"5Mbit\"\nutilisation = 0.7\n");
    std::string because;
    const absl::StatusOr<v1::RunSpec> without = SpecOf(config, nullptr, &because);
    ASSERT_TRUE(without.ok()) << without.status();
    ASSERT_EQ(without->exchange().codec(), "int4") << because;
    config.exchange.slow_codec = slow;
    const absl::StatusOr<v1::RunSpec> spec = SpecOf(config, nullptr, &because);
    ASSERT_TRUE(spec.ok()) << spec.status();
    EXPECT_EQ(spec->exchange().codec(), "int4");
    EXPECT_EQ(spec->exchange().slow_codec(), slow == "int4" ? "" : slow);
    EXPECT_EQ(spec->mode().fragments(), without->mode().fragments());
  }
}

TEST(ModeResolution, WhatIsLackingIsNamedWithWhatToGiveInstead) {
  const Config no_line = AutoConfig("");
  EXPECT_EQ(AutoModeFault(no_line, ConfigUse::kCoordinator).keys.at(0).second, "line_rate");
  EXPECT_EQ(AutoModeFault(no_line, ConfigUse::kPeer).what, "") << "a peer makes no run";
  std::string because;
  EXPECT_THAT(std::string(SpecOf(no_line, nullptr, &because).status().message()),
              HasSubstr("needs line_rate, what the slowest peer's line carries each way: give it, "
                        "or name the mode that `atoll plan` chooses with --rate"));
  Config by_peer = no_line;
  by_peer.peer.up_rate = by_peer.peer.down_rate = 12500000;
  EXPECT_EQ(AutoModeFault(by_peer, ConfigUse::kLocal).what, "");
  by_peer.inner.step_time = absl::ZeroDuration();
  EXPECT_EQ(AutoModeFault(by_peer, ConfigUse::kLocal).keys.at(0).second, "step_time");
  by_peer.inner.pace = "time";
  by_peer.inner.time = absl::Seconds(20);
  EXPECT_EQ(AutoModeFault(by_peer, ConfigUse::kLocal).what, "");
  by_peer.inner.epochs = 1;
  EXPECT_THAT(AutoModeFault(by_peer, ConfigUse::kLocal).what, HasSubstr("[inner] epochs"));
  by_peer.model.kind = kExternalKind;
  EXPECT_THAT(AutoModeFault(by_peer, ConfigUse::kLocal).what, HasSubstr("the size of the model"));
}

TEST(ModeResolution, NoModeIsEnoughForLinesThatCarryNearlyNothing) {
  std::string because;
  const absl::Status status =
      SpecOf(AutoConfig("line_rate = \"100kbit\"\n"), nullptr, &because).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("or lower [mode] utilisation"));
}

TEST(ModeResolution, ItsKeysAreForAutoAlone) {
  ConfigFile file;
  for (const std::string key : {"utilisation = 0.9", "step_time = \"1s\"", "line_rate = \"1Gbit\"",
                                "round_trip = \"1s\""}) {
    EXPECT_THAT(file.ErrorOf("[mode]\n" + key + "\n"), HasSubstr("x.toml:2: "));
    EXPECT_THAT(file.ErrorOf("[mode]\n" + key + "\n"), HasSubstr("is for kind 'auto' alone"));
  }
  EXPECT_THAT(file.ErrorOf(AutoText("fragments = 4\n")), HasSubstr("'streaming' alone"));
}

}  // namespace
}  // namespace atolld
