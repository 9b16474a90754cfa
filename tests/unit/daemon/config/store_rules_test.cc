// Where a coordinator keeps its store, and the coordinators that share one.
#include "daemon/config/store_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "daemon/config/config.h"
#include "tests/unit/daemon/config/config_file.h"

namespace atolld {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string StoreErrorOf(const std::string& coordinator, const std::string& before = "") {
  const std::string id = before.empty() ? "[run]\nid = \"r\"\n" : before;
  return ConfigFile().ErrorOf(
      absl::StrCat(id, "[data]\npath = \".\"\n[coordinator]\ndir = \"d\"\n", coordinator),
      ConfigUse::kCoordinator);
}

// Broken: two coordinators would each begin a run of their own, or a run would lie open to whoever
// is on the way to etcd.
TEST(StoreRules, EtcdNeedsWhatCoordinatorsShare) {
  const std::string etcd = "store = \"etcd\"\n";
  const std::string here = etcd + "etcd = \"127.0.0.1:2379,localhost:2380\"\n";
  EXPECT_EQ(StoreErrorOf(here), "");
  EXPECT_THAT(StoreErrorOf(etcd), HasSubstr("store = 'etcd' needs [coordinator] etcd"));
  EXPECT_THAT(StoreErrorOf(here, "[run]\nrounds = 3\n"), HasSubstr("needs [run] id"));
  EXPECT_THAT(StoreErrorOf("etcd = \"127.0.0.1:2379\"\n"), HasSubstr("needs [coordinator] store"));
  EXPECT_THAT(StoreErrorOf(here + "aggregator = \"always\"\n"), HasSubstr("must not be 'always'"));
  EXPECT_THAT(StoreErrorOf(here + "etcd_lease = \"2500ms\"\n"), HasSubstr("whole seconds"));
  EXPECT_THAT(StoreErrorOf(here + "etcd_lease = \"1s\"\n"), HasSubstr("etcd_lease must be"));
  EXPECT_THAT(StoreErrorOf(etcd + "etcd = \"10.0.0.1\"\n"), HasSubstr("etcd must be addresses"));
  const std::string away = etcd + "etcd = \"10.0.0.1:2379\"\n";
  EXPECT_THAT(StoreErrorOf(away), HasSubstr("beyond this machine"));
  EXPECT_EQ(StoreErrorOf(away + "etcd_authority = \"ca\"\n"), "");
  EXPECT_THAT(StoreErrorOf(away + "etcd_authority = \"ca\"\netcd_key = \"k\"\n"),
              HasSubstr("etcd_key needs [coordinator] etcd_certificate"));
  EXPECT_THAT(StoreErrorOf(here + "etcd_certificate = \"c\"\netcd_key = \"k\"\n"),
              HasSubstr("needs [coordinator] etcd_authority"));
}

// Broken: peers would dial what nobody can, or miss the coordinator that leads.
TEST(StoreRules, OthersAreAddressesThatPeersCanDial) {
  EXPECT_EQ(StoreErrorOf("others = \"b:7070, c:7070\"\n"), "");
  EXPECT_THAT(StoreErrorOf("others = \"b:7070,0.0.0.0:7070\"\n"), HasSubstr("nobody can dial it"));
  EXPECT_THAT(StoreErrorOf("others = \"b\"\n"), HasSubstr("others must be addresses"));
  EXPECT_THAT(StoreErrorOf("others = \"b:7070\"\n[network]\nplaintext = true\n"),
              HasSubstr("plaintext"));
  Config config;
  config.coordinator.address = "a:1";
  config.coordinator.others = "b:1, a:1,c:1";
  EXPECT_THAT(CoordinatorAddresses(config), ElementsAre("a:1", "b:1", "c:1"));
}

}  // namespace
}  // namespace atolld
