#include "membership/history/lineage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "membership/history/header.h"
#include "tests/unit/daemon/replica/state/test_run.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

v1::Lineage Ancestor(const std::string& run, uint64_t version) {
  v1::Lineage lineage;
  lineage.set_run_id(run);
  lineage.set_version(version);
  lineage.set_state_digest(std::string(32, 's'));
  lineage.set_header_digest(std::string(32, 'h'));
  return lineage;
}

TEST(Lineage, TheGenesisDigestCoversItAndOldRunsKeepTheirs) {
  // Broken: logs of earlier releases could not be read any more, or a branch's first record could
  // be given another parent. The numbers are of an independent program.
  v1::Genesis genesis = TestRun().Genesis();
  EXPECT_EQ(ToHex(GenesisDigest(genesis)),
            "196d661e2ebac569fc37edb4d5f4a9f4de6a8b89acf7c8b85bffd0c5f6fc565e");
  v1::Lineage* parent = genesis.mutable_spec()->mutable_parent();
  *parent = Ancestor("old", 44);
  parent->set_steps(1100);
  parent->set_tokens(2534400);
  parent->set_next_sample(39600);
  parent->set_buffers(true);
  v1::Lineage* older = parent->add_earlier();
  *older = Ancestor("older", 3);
  older->set_state_digest(std::string(32, 't'));
  older->set_header_digest(std::string(32, 'i'));
  older->set_steps(75);
  older->set_tokens(1000);
  EXPECT_EQ(ToHex(GenesisDigest(genesis)),
            "b1445cd75a20205a5eab7d32df446a7a30202e4b015e9f2eb4fe81bf6e77122d");
}

TEST(Lineage, ABranchOfABranchNamesThemAllTheNewestFirst) {
  // Broken: where a model comes from would be lost at the second branch.
  v1::Genesis genesis = TestRun().Genesis();
  BranchPoint point;
  point.version = 7;
  point.tokens = 70;
  point.next_sample = 700;
  point.buffers = false;
  const v1::Lineage first = LineageOf(genesis, point);
  EXPECT_EQ(first.run_id(), "test-run");
  EXPECT_EQ(first.version(), 7u);
  EXPECT_EQ(first.next_sample(), 700u);
  EXPECT_FALSE(first.buffers());
  EXPECT_EQ(first.earlier_size(), 0);

  *genesis.mutable_spec()->mutable_parent() = first;
  for (int i = 0; i < kMostAncestors; ++i) {
    *genesis.mutable_spec()->mutable_parent()->add_earlier() =
        Ancestor("older-" + std::to_string(i), 1);
  }
  ASSERT_TRUE(CheckGenesis(genesis).ok()) << CheckGenesis(genesis);
  genesis.mutable_spec()->set_run_id("second");
  const v1::Lineage second = LineageOf(genesis, point);
  EXPECT_EQ(second.run_id(), "second");
  ASSERT_EQ(second.earlier_size(), kMostAncestors);
  EXPECT_EQ(second.earlier(0).run_id(), "test-run");
  EXPECT_EQ(second.earlier(0).earlier_size(), 0);
  EXPECT_EQ(second.earlier(1).run_id(), "older-0");
  *genesis.mutable_spec()->mutable_parent() = second;
  EXPECT_TRUE(CheckGenesis(genesis).ok()) << CheckGenesis(genesis);
}

TEST(Lineage, WhatNoHonestRunHasIsRefused) {
  // Broken: a genesis of 64 MB of ancestors, or leases that overflow, from whoever makes version 0.
  const auto said = [](const v1::Lineage& parent) {
    v1::Genesis genesis = TestRun().Genesis();
    *genesis.mutable_spec()->mutable_parent() = parent;
    return std::string(CheckGenesis(genesis).message());
  };
  EXPECT_EQ(said(Ancestor("old", 4)), "");
  EXPECT_THAT(said(Ancestor("No Id", 4)), HasSubstr("parent: a run id is 1 to 64"));
  EXPECT_THAT(said(Ancestor("old", uint64_t{1} << 33)), HasSubstr("parent: version 8589934592"));
  v1::Lineage parent = Ancestor("old", 4);
  parent.set_next_sample(~uint64_t{0});
  EXPECT_THAT(said(parent), HasSubstr("next_sample 18446744073709551615"));
  parent = Ancestor("old", 4);
  parent.set_state_digest("short");
  EXPECT_THAT(said(parent), HasSubstr("parent: state digest"));
  parent = Ancestor("old", 4);
  parent.clear_header_digest();
  EXPECT_THAT(said(parent), HasSubstr("parent: header digest"));
  parent = Ancestor("old", 4);
  *parent.add_earlier() = Ancestor("older", 4);
  EXPECT_EQ(said(parent), "");
  *parent.mutable_earlier(0)->add_earlier() = Ancestor("oldest", 4);
  EXPECT_THAT(said(parent), HasSubstr("earlier run 0: it has earlier runs of its own"));
  parent = Ancestor("old", 4);
  for (int i = 0; i <= kMostAncestors; ++i) *parent.add_earlier() = Ancestor("older", 1);
  EXPECT_THAT(said(parent), HasSubstr("65 earlier runs"));
}

}  // namespace
}  // namespace atolld
