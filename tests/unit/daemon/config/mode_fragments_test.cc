// What does not go with entries that cover one fragment each is refused, with the reason.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/config/config_rules.h"
#include "tests/unit/daemon/config/config_file.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

// Broken: a run would begin in which something is made from the values of another fragment, and
// whose coordinator or peers refuse its version 0.
TEST(ModeFragmentsTest, EachConflictSaysWhy) {
  struct Case {
    std::function<void(Config&)> spoil;
    const char* why;
    bool of_fragments;  // and not of the mode, whatever it is cut into
  };
  const std::vector<Case> cases = {
      {[](Config& c) { c.exchange.aggregation = "centred_clipping"; }, "the mean of the entry",
       true},
      {[](Config& c) { c.inner.control_variates = true; }, "the mean of all values", false},
      {[](Config& c) { c.run.rounds = 3; }, "[run] rounds must be at least 4", true},
      {[](Config& c) { c.privacy.masked = true; }, "[privacy] masked must be false", false},
      {[](Config& c) { c.privacy.clip = 1; }, "[privacy] clip must be 0", true},
  };
  Config streaming;
  streaming.mode.kind = "streaming";
  streaming.mode.fragments = 4;
  EXPECT_EQ(FaultOfMode(streaming).what, "");
  for (const Case& one : cases) {
    Config config = streaming;
    one.spoil(config);
    const ConfigFault fault = FaultOfMode(config);
    EXPECT_EQ(fault.keys.at(0).second, "fragments");
    EXPECT_THAT(fault.what, HasSubstr(one.why));
    EXPECT_THAT(fault.what, HasSubstr("with [mode] fragments = 4"));
    config.mode.fragments = 1;
    const std::string alone = FaultOfMode(config).what;
    EXPECT_EQ(alone.empty(), one.of_fragments) << "one fragment is everything: " << alone;
  }
}

// Broken: each update of the run would be nothing, since the merge drops it as the round ends.
TEST(ModeFragmentsTest, AMergeThatDropsEachUpdateIsRefused) {
  Config config;
  config.mode.kind = "streaming";
  config.mode.fragments = 1;
  config.mode.merge = 0;
  config.mode.overlap = config.inner.steps;
  const ConfigFault fault = FaultOfMode(config);
  EXPECT_EQ(fault.keys.at(0).second, "merge");
  EXPECT_THAT(fault.what, HasSubstr("would drop all that a peer has learnt"));
  const auto passes = [&config](const std::function<void(Config&)>& mend) {
    Config mended = config;
    mend(mended);
    return FaultOfMode(mended).what;
  };
  EXPECT_EQ(passes([](Config& c) { c.mode.merge = 0.5; }), "");
  EXPECT_EQ(passes([](Config& c) { --c.mode.overlap; }), "");
  EXPECT_EQ(passes([](Config& c) { c.mode.fragments = 3; }), "");
}

// Broken: the file would not be where the fault is shown.
TEST(ModeFragmentsTest, AFaultIsShownInTheFile) {
  const std::string run = "[model]\nkind = \"stub\"\nparameters = 50000\n[run]\npeers = 8\n";
  const std::string mode = "[mode]\nkind = \"streaming\"\nfragments = 2\n";
  EXPECT_EQ(ConfigFile().ErrorOf(absl::StrCat(run, mode)), "");
  EXPECT_THAT(ConfigFile().ErrorOf(
                  absl::StrCat(run, mode, "[exchange]\naggregation = \"centred_clipping\"\n")),
              HasSubstr("x.toml:8: [exchange] aggregation must be a rule without a centre"));
}

}  // namespace
}  // namespace atolld
