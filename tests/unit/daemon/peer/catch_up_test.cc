#include "daemon/peer/catch_up.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace atolld {
namespace {

using ::testing::ElementsAre;

FetchDonor DonorWith(uint64_t oldest_entry, uint64_t snapshot) {
  v1::Offer offer;
  offer.set_oldest_entry(oldest_entry);
  offer.set_has_snapshot(snapshot > 0);
  offer.set_snapshot_version(snapshot);
  return {"address", offer};
}

TEST(SyncChoice, TakesTheNewestSnapshotThatSeveralOffer) {
  // Broken: a joiner would take an old snapshot, or one that a single donor has, at a single
  // donor's speed.
  EXPECT_THAT(SnapshotsOffered({DonorWith(1, 20), DonorWith(1, 40), DonorWith(1, 40)}, 0, 100),
              ElementsAre(40, 20));
  EXPECT_THAT(SnapshotsOffered(
                  {DonorWith(1, 20), DonorWith(1, 20), DonorWith(1, 20), DonorWith(1, 40)}, 0, 100),
              ElementsAre(20, 40));
  EXPECT_THAT(SnapshotsOffered({DonorWith(1, 20), DonorWith(1, 40), DonorWith(1, 200)}, 0, 100),
              ElementsAre(40, 20));
  EXPECT_THAT(SnapshotsOffered({DonorWith(1, 20), DonorWith(1, 40)}, 30, 100), ElementsAre(40));
}

TEST(SyncChoice, BelievesWhatDonorsSayTheyOffer) {
  // Broken: a peer would ask for entries that nobody holds, or not ask who has not told.
  EXPECT_FALSE(EntryOffered({DonorWith(10, 9), DonorWith(0, 9)}, 9));
  EXPECT_TRUE(EntryOffered({DonorWith(10, 9)}, 10));
  EXPECT_TRUE(EntryOffered({DonorWith(10, 9), {"silent", std::nullopt}}, 3));
  EXPECT_FALSE(SnapshotOffered({DonorWith(10, 9)}, 10, 20));
  EXPECT_TRUE(SnapshotOffered({{"silent", std::nullopt}}, 10, 20));
}

TEST(SyncChoice, FormatsBytesForPeople) {
  // Broken: the log's figures, by which a user judges a join, would mislead.
  EXPECT_EQ(FormatBytes(512), "512 B");
  EXPECT_EQ(FormatBytes(12345), "12.3 kB");
  EXPECT_EQ(FormatBytes(4123456), "4.1 MB");
}

}  // namespace
}  // namespace atolld
