// What does not go with masked updates is refused, with the key and the reason.
#include "daemon/config/masked_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

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
      {[](Config& c) { c.exchange.clip = 1; }, "clip", "has to see its length"},
      {[](Config& c) { c.exchange.audit_share = 0.1; }, "audit_share", "single updates"},
      {[](Config& c) { c.membership.outsized = 8; }, "outsized", "how long"},
      {[](Config& c) { c.membership.weight_cap = 16; }, "weight_cap", "before it masks"},
      {[](Config& c) { c.exchange.codec = "topk+zstd"; }, "codec", "leaves values out"},
      {[](Config& c) { c.exchange.error_feedback = true; }, "error_feedback", "fine enough"},
      {[](Config& c) { c.run.peers = 2; }, "peers", "3 to 255"},
      {[](Config& c) { c.run.peers = 256; }, "peers", "3 to 255"},
      {[](Config& c) { c.privacy.threshold = 9; }, "threshold", "at most [run] peers (8)"},
      {[](Config& c) { c.federation.weights = "loss"; }, "weights", "power of the loss"},
      {[](Config& c) {
         c.privacy.clip = 1;
         c.privacy.place = "mean";
       },
       "place", "known to all"},
      {[](Config& c) { c.privacy.quantile = 0.5; }, "quantile", "told of each party"},
      {[](Config& c) { c.inner.control_variates = true; }, "control_variates", "beside"},
  };
  EXPECT_EQ(MaskedConflict(MaskedConfig()).what, "");
  for (const Case& one : cases) {
    Config config = MaskedConfig();
    one.spoil(config);
    const MaskedFault fault = MaskedConflict(config);
    EXPECT_EQ(fault.key, one.key);
    EXPECT_THAT(fault.what, HasSubstr(one.why));
    config.privacy.masked = false;
    EXPECT_EQ(MaskedFaultOf(config).what, "");
  }
}

// Broken: a run would start whose updates are not masked, though its config asks for it.
TEST(MaskedRulesTest, ARunIsNotStartedWithoutItsMasks) {
  EXPECT_THAT(ConfigFile().ErrorOf("[run]\npeers = 8\n[privacy]\nmasked = true\n[exchange]\n"
                                   "clip = 0\naudit_share = 0\n[membership]\noutsized = 0\n"
                                   "weight_cap = 0\n"),
              HasSubstr(":4: [privacy] masked must be false"));
}

}  // namespace
}  // namespace atolld
