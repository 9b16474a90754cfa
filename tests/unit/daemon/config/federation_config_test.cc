// What makes a run one of parties: [data] private and validation, [inner] epochs, [federation].
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

// Of the coordinator's config, which says what the run is.
std::string PartiesError(const std::string& text) {
  return ConfigFile().ErrorOf(absl::StrCat("[coordinator]\ndir = \"c\"\n", text),
                              ConfigUse::kCoordinator);
}

v1::RunSpec PartiesSpec(const std::string& text) {
  const absl::StatusOr<Config> config = ConfigFile().Load(text);
  EXPECT_TRUE(config.ok()) << config.status();
  return config.ok() ? MakeRunSpec(*config) : v1::RunSpec();
}

TEST(FederationConfig, WhatIsOffIsNotRecorded) {
  // Broken: the digests of all runs before would change.
  const v1::RunSpec spec = PartiesSpec("[federation]\nparticipation = 1\nweights = \"tokens\"\n");
  EXPECT_FALSE(spec.has_federation());
  EXPECT_FALSE(spec.data().private_());
}

TEST(FederationConfig, TheRunRecordsHowPartiesTakePart) {
  // Broken: a key would be ignored.
  const v1::RunSpec spec = PartiesSpec(
      "[data]\nprivate = true\n[inner]\nepochs = 2\n"
      "[federation]\nparticipation = 0.5\ndrop = 0.25\nweights = \"loss\"\nfairness = 2\n"
      "normalised = true\n");
  EXPECT_TRUE(spec.data().private_());
  EXPECT_FALSE(spec.data().common_validation());
  EXPECT_EQ(spec.inner().epochs(), 2u);
  EXPECT_EQ(absl::bit_cast<float>(spec.federation().participation_bits()), 0.5f);
  EXPECT_EQ(absl::bit_cast<float>(spec.federation().drop_bits()), 0.25f);
  EXPECT_EQ(spec.federation().weights(), "loss");
  EXPECT_EQ(absl::bit_cast<float>(spec.federation().fairness_bits()), 2.0f);
  EXPECT_TRUE(spec.federation().normalised());
}

TEST(FederationConfig, PrivateDataExcludesWhatNeedsACommonText) {
  // Broken: parties would train on tokens that mean another thing at each of them.
  EXPECT_THAT(PartiesError("[data]\nprivate = true\ntokenizer = \"chars\"\n"),
              HasSubstr("must not be 'chars' with private data"));
  EXPECT_THAT(PartiesError("[inner]\nepochs = 1\n"), HasSubstr("epochs must be 0"));
  EXPECT_THAT(PartiesError("[data]\nprivate = true\n[inner]\nepochs = 1\npace = \"auto\"\n"),
              HasSubstr("pace must be 'fixed' with epochs"));
  EXPECT_THAT(PartiesError("[data]\nvalidation = \"nowhere.txt\"\n"), HasSubstr("validation"));
}

TEST(FederationConfig, DrawsLeaveARuleWhatItNeeds) {
  // Broken: a round of few could never commit by a rule that needs more.
  const std::string rule =
      "[run]\npeers = 8\nquorum = 6\n[exchange]\naggregation = \"krum\"\nfaulty = 1\n";
  EXPECT_THAT(PartiesError(absl::StrCat(rule, "[federation]\ndrop = 0.1\n")),
              HasSubstr("drop must be 0 with aggregation 'krum'"));
  EXPECT_THAT(PartiesError(absl::StrCat(rule, "[federation]\nparticipation = 0.2\n")),
              HasSubstr("participation 0.2 of a quorum of 6 leaves 2 updates"));
  EXPECT_THAT(PartiesError("[federation]\nfairness = 3\n"), HasSubstr("for weights 'loss' alone"));
}

TEST(FederationConfig, OfAPeersOwnConfigNothingIsAskedThatTheRunSays) {
  // Broken: a peer could not name the common file, since its config does not say that data are
  // private.
  ConfigFile file;
  file.Write("a.txt", "text");
  const std::string text =
      "[peer]\nid = \"p1\"\nlisten = \"127.0.0.1:1\"\ndir = \"p\"\n"
      "[coordinator]\naddress = \"127.0.0.1:2\"\n[data]\npath = \"a.txt\"\nvalidation = ";
  EXPECT_EQ(file.ErrorOf(text + "\"a.txt\"\n", ConfigUse::kPeer), "");
  EXPECT_THAT(file.ErrorOf(text + "\"b.txt\"\n", ConfigUse::kPeer),
              HasSubstr("data.validation 'b.txt' is not an existing file"));
}

}  // namespace
}  // namespace atolld
