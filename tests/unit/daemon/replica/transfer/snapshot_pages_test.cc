#include "daemon/replica/transfer/snapshot_pages.h"

#include <string>
#include <vector>

#include "daemon/replica/state/layout.h"
#include "daemon/replica/state/snapshot.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/daemon/replica/transfer/transfer_fixture.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

// A description of two buffers with five blocks each.
v1::SnapshotInfo TenBlocks() {
  v1::SnapshotInfo info;
  info.set_version(3);
  info.mutable_genesis()->mutable_manifest()->set_elements(5 * kBlockBytes / sizeof(float));
  for (const char* name : {"theta", "momentum"}) {
    v1::SnapshotBuffer* const buffer = info.add_buffers();
    buffer->set_name(name);
    buffer->set_elements(info.genesis().manifest().elements());
    for (char block = 0; block < 5; ++block) {
      buffer->add_leaves(std::string(32, static_cast<char>(name[0] + block)));
    }
  }
  return info;
}

TEST(SnapshotPages, ComeTogetherWhateverTheirSize) {
  // Broken: a state whose leaves do not fit one message could not be joined.
  const v1::SnapshotInfo info = TenBlocks();
  for (const uint64_t most : {1u, 3u, 5u, 9u, 10u, 1000u}) {
    SnapshotPages pages;
    ASSERT_TRUE(pages.Begin(WithoutLeaves(info)).ok());
    for (uint64_t next = 0; !pages.complete(); next += most) {
      const v1::SnapshotLeaves page = LeavesFrom(info, next, most);
      EXPECT_LE(page.leaves().size(), most * 32);
      ASSERT_TRUE(pages.Take(page).ok());
    }
    EXPECT_EQ(pages.info().SerializeAsString(), info.SerializeAsString()) << most;
  }
}

TEST(SnapshotPages, RefuseWhatDoesNotFollow) {
  // Broken: a donor could fill a joiner's memory with leaves, or mix up its blocks.
  const v1::SnapshotInfo info = TenBlocks();
  SnapshotPages pages;
  EXPECT_TRUE(absl::IsInvalidArgument(pages.Begin(info))) << "the leaves are there already";
  ASSERT_TRUE(pages.Begin(WithoutLeaves(info)).ok());
  ASSERT_TRUE(pages.Take(LeavesFrom(info, 0, 4)).ok());
  const std::string before = pages.info().SerializeAsString();
  std::vector<v1::SnapshotLeaves> bad = {
      LeavesFrom(info, 0, 4),  // once more
      LeavesFrom(info, 5, 4),  // one is left out
      v1::SnapshotLeaves(),    // nothing
      LeavesFrom(info, 4, 6),  // a leaf too many
      LeavesFrom(info, 4, 6),  // half a leaf
  };
  bad[2].set_first(4);
  *bad[3].mutable_leaves() += std::string(32, 'x');
  bad[4].mutable_leaves()->resize(80);
  for (const v1::SnapshotLeaves& page : bad) {
    EXPECT_TRUE(absl::IsInvalidArgument(pages.Take(page))) << page.first();
    EXPECT_EQ(pages.info().SerializeAsString(), before) << "something of it was kept";
  }
  EXPECT_TRUE(pages.Take(LeavesFrom(info, 4, 6)).ok());
  EXPECT_TRUE(pages.complete());
  EXPECT_FALSE(pages.Take(LeavesFrom(info, 0, 1)).ok());
}

TEST_F(TransferTest, ASnapshotIsJoinedOverSeveralPages) {
  // Broken: a model of more than 16 billion values could not be joined.
  UseLargeState();
  DonorSettings settings;
  settings.snapshot_leaves_a_page = 5;  // of 12
  AddDonor("a", 4, {4, 1}, nullptr, settings);
  AddDonor("b", 4, {4, 1}, nullptr, settings);
  ASSERT_TRUE(FetchSnapshot({"a", "b"}).ok());
  EXPECT_EQ((*OpenReplica(joiner().files, "/r"))->StateDigest(), digest_);
  EXPECT_EQ(fetched_.donors, 2u);
}

TEST_F(TransferTest, ADonorThatLiesInAPageIsLeft) {
  // Broken: one donor's false leaf would end a join, or send the joiner after blocks that nobody
  // has; pages without end would fill its memory.
  UseLargeState();
  DonorSettings settings;
  settings.snapshot_leaves_a_page = 5;
  using Change = std::function<void(v1::SnapshotLeaves*)>;
  const std::vector<std::pair<Change, std::string>> lies = {
      {[](v1::SnapshotLeaves* page) {
         if (page->first() == 5) (*page->mutable_leaves())[40] ^= 1;
       },
       "leaves"},
      {[](v1::SnapshotLeaves* page) {
         if (page->first() == 5) page->set_first(0);
       },
       "block 0, not 5"},
      {[](v1::SnapshotLeaves* page) { page->set_first(page->first() == 5 ? 10 : 5); },
       "block 5, not 0"},
      {[](v1::SnapshotLeaves* page) {
         if (page->first() == 10) page->mutable_leaves()->append(32 * 16384, 'x');
       },
       "missing"}};
  for (size_t i = 0; i < lies.size(); ++i) {
    const std::string name = absl::StrCat("liar", i);
    AddDonor(
        name, 4, {4, 1},
        [change = lies[i].first](Frame frame) {
          v1::SnapshotBlock block;
          CHECK_OK(Unpack(frame, &block));
          if (block.has_leaves()) change(block.mutable_leaves());
          return Pack(block, frame.payload);
        },
        settings);
    const absl::Status lied = FetchSnapshot({name});
    EXPECT_TRUE(absl::IsUnavailable(lied)) << lied;
    EXPECT_THAT(std::string(lied.message()), HasSubstr(lies[i].second));
  }
  AddDonor("good", 4, {4, 1}, nullptr, settings);
  ASSERT_TRUE(FetchSnapshot({"liar0", "liar1", "liar2", "liar3", "good"}).ok());
  EXPECT_EQ((*OpenReplica(joiner().files, "/r"))->StateDigest(), digest_);
}

}  // namespace
}  // namespace atolld
