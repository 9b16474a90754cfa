// What does not go with masked updates is refused, with the key and the reason.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/config/config_rules.h"
#include "daemon/config/run_record.h"
#include "tests/unit/daemon/config/config_file.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

Config MaskedConfig() {
  Config config;
  config.privacy.masked = true;
  config.run.peers = 8;
  config.exchange.clip = 0;
  config.exchange.audit_share = 0;
  config.membership.outsized = 0;
  config.membership.weight_cap = 0;
  return config;
}

// Broken: a combination in which masks protect nobody, or a sum cannot be unmasked, would run.
TEST(MaskedRulesTest, EachConflictNamesItsKeyAndWhy) {
  struct Case {
    std::function<void(Config&)> spoil;
    const char* key;
    const char* why;
  };
  const std::vector<Case> cases = {
      {[](Config& c) { c.exchange.aggregation = "median"; }, "aggregation", "nobody sees one"},
      {[](Config& c) { c.exchange.clip = 1; }, "clip", "where its length is seen"},
      {[](Config& c) { c.exchange.audit_share = 0.1; }, "audit_share", "single updates"},
      {[](Config& c) { c.membership.outsized = 8; }, "outsized", "how long"},
      {[](Config& c) { c.membership.weight_cap = 16; }, "weight_cap", "before it masks"},
      {[](Config& c) { c.exchange.codec = "topk+zstd"; }, "codec", "leaves values out"},
      {[](Config& c) { c.exchange.error_feedback = true; }, "error_feedback", "fine enough"},
      {[](Config& c) { c.run.peers = 2; }, "peers", "3 to 255"},
      {[](Config& c) { c.run.peers = 256; }, "peers", "3 to 255"},
      {[](Config& c) { c.privacy.threshold = 9; }, "threshold", "at most [run] peers (8)"},
      {[](Config& c) { c.privacy.roster = 2; }, "roster", "0 or at least 3"},
      {[](Config& c) {
         c.privacy.roster = 5;
         c.federation.participation = 0.5;
       },
       "roster", "at most the 4 of the 8 peers that are drawn for a round, not 5"},
      {[](Config& c) { c.federation.weights = "loss"; }, "weights", "power of the loss"},
      {[](Config& c) { c.federation.normalised = true; }, "normalised", "only after all updates"},
      {[](Config& c) {
         c.privacy.clip = 1;
         c.privacy.place = "mean";
       },
       "place", "known to all"},
      {[](Config& c) { c.federation.drop = 0.1; }, "drop", "fewer than a sum has"},
      {[](Config& c) { c.federation.participation = 0.25; }, "participation",
       "at least 3 of the 8"},
      {[](Config& c) {
         c.privacy.threshold = 6;
         c.federation.participation = 0.5;
       },
       "participation", "at least 6 of the 8 peers are drawn, not 4"},
      {[](Config& c) { c.privacy.quantile = 0.5; }, "quantile", "told of each party"},
      {[](Config& c) { c.inner.control_variates = true; }, "control_variates", "beside"},
  };
  EXPECT_EQ(FaultOfMasks(MaskedConfig()).what, "");
  for (const Case& one : cases) {
    Config config = MaskedConfig();
    one.spoil(config);
    const ConfigFault fault = FaultOfMasks(config);
    ASSERT_FALSE(fault.keys.empty()) << one.key;
    EXPECT_EQ(fault.keys[0].second, one.key);
    EXPECT_THAT(fault.what, HasSubstr(one.why));
    config.privacy.masked = false;
    EXPECT_EQ(FaultOfMasks(config).what, "");
  }
}

// A run that masks take as it is; `lines` follow [privacy].
std::string MaskedRun(const std::string& lines, const std::string& others = "") {
  return absl::StrCat("[model]\nkind = \"stub\"\nparameters = 5000\n[run]\npeers = 8\n",
                      "[data]\nprivate = true\n[federation]\nweights = \"equal\"\n", others,
                      "[privacy]\nmasked = true\n", lines);
}

// Broken: masks would have to be asked for by five keys, or would do away with one that was said
// and tell nobody.
TEST(MaskedRulesTest, OneKeyIsEnoughAndWhatWasSaidStands) {
  const absl::StatusOr<Config> masked = ConfigFile().Load(MaskedRun("threshold = 7\n"));
  ASSERT_TRUE(masked.ok()) << masked.status();
  EXPECT_EQ(masked->exchange.clip, 0);
  EXPECT_EQ(masked->exchange.audit_share, 0);
  EXPECT_EQ(masked->membership.outsized, 0);
  EXPECT_EQ(masked->membership.weight_cap, 0);
  const v1::RunSpec spec = MakeRunSpec(*masked);
  EXPECT_TRUE(spec.privacy().masked());
  EXPECT_EQ(spec.privacy().threshold(), 7u);
  EXPECT_THAT(ConfigFile().ErrorOf(MaskedRun("", "[exchange]\naudit_share = 0.1\n")),
              HasSubstr("x.toml:11: [exchange] audit_share must be 0"));
  EXPECT_THAT(ConfigFile().ErrorOf(MaskedRun("threshold = 9\n")),
              HasSubstr("x.toml:12: [privacy] threshold must be at most [run] peers (8)"));
}

// Broken: a party could not have both, masks against those who average and noise against those who
// see the mean.
TEST(MaskedRulesTest, MasksGoWithDifferentialPrivacy) {
  EXPECT_EQ(ConfigFile().ErrorOf(MaskedRun("clip = 1.0\nnoise = 2.0\n")), "");
}

// Broken: in a run of many three parties would be enough for a sum, of which two may be the
// coordinator's own.
TEST(MaskedRulesTest, TheRosterFollowsTheRunsSize) {
  const auto roster_of = [](uint32_t peers, double participation, uint32_t said) {
    Config config = MaskedConfig();
    config.run.peers = peers;
    config.federation.participation = participation;
    config.privacy.roster = said;
    return MakeRunSpec(config).privacy().roster();
  };
  EXPECT_EQ(roster_of(3, 1, 0), 3u);
  EXPECT_EQ(roster_of(8, 1, 0), 5u);
  EXPECT_EQ(roster_of(9, 1, 0), 5u);
  EXPECT_EQ(roster_of(100, 1, 0), 51u);
  EXPECT_EQ(roster_of(100, 0.2, 0), 11u);
  EXPECT_EQ(roster_of(100, 1, 4), 4u);
  Config plain;
  EXPECT_FALSE(MakeRunSpec(plain).has_privacy());
}

// Broken: who switches the list on without masks would believe in a protection that is not there.
TEST(MaskedRulesTest, AClosedListNeedsMasks) {
  Config config = MaskedConfig();
  config.privacy.closed = true;
  EXPECT_EQ(FaultOfMasks(config).what, "");
  EXPECT_TRUE(MakeRunSpec(config).privacy().closed());
  config.privacy.masked = false;
  EXPECT_EQ(FaultOfMasks(config).keys.at(0).second, "closed");
  EXPECT_THAT(FaultOfMasks(config).what, HasSubstr("needs masked = true"));
}

}  // namespace
}  // namespace atolld
