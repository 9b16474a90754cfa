#include "daemon/peer/shown_updates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/status/status.h"
#include "compression/base/bytes.h"
#include "tests/sim/sim_world.h"
#include "tests/unit/daemon/replica/state/test_run.h"

namespace atolld {
namespace {

class ShownUpdatesTest : public ::testing::Test {
 protected:
  ShownUpdatesTest() { EXPECT_TRUE(env_.files.MakeDirectories("/r").ok()); }

  absl::Status Add(ShownUpdates& shown, uint64_t version) {
    absl::Status written = absl::UnknownError("not yet");
    shown.Add(version, [&written](const absl::Status& status) { written = status; });
    world_.RunFor(absl::Seconds(1));
    return written;
  }

  SimWorld world_{1};
  const Env env_ = world_.AddProcess("p").env();
};

TEST_F(ShownUpdatesTest, ALaterLifeKnowsWhatWasShown) {
  // Broken: a peer that dies after its update was in an unmasked sum would train it again on the
  // same data, bit for bit, and give it to another sum.
  world_.SetCrash("p", SimDisk::Crash::kLoseUnsynced);
  ShownUpdates shown(env_, "/r");
  ASSERT_TRUE(shown.Load().ok());
  EXPECT_EQ(shown.CountOf(7), 0u);
  EXPECT_TRUE(Add(shown, 7).ok());
  EXPECT_TRUE(Add(shown, 7).ok());
  EXPECT_EQ(shown.CountOf(7), 2u);
  EXPECT_EQ(shown.CountOf(8), 0u);
  EXPECT_EQ(FileBytes(env_.files, "/r/mask_shown"), "7 2\n");
  ShownUpdates later(env_, "/r");
  ASSERT_TRUE(later.Load().ok());
  EXPECT_EQ(later.CountOf(7), 2u);
  EXPECT_TRUE(Add(later, 8).ok());
  EXPECT_EQ(later.CountOf(8), 1u);
}

TEST_F(ShownUpdatesTest, WhatCannotBeWrittenDoesNotCount) {
  // Broken: an update would be shown of which a later life knows nothing.
  ShownUpdates shown(env_, "/r");
  ASSERT_TRUE(shown.Load().ok());
  world_.disk("p").FailNextWrites(1, absl::ResourceExhaustedError("the disk is full"));
  EXPECT_EQ(Add(shown, 3).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(shown.CountOf(3), 0u);
  EXPECT_TRUE(Add(shown, 3).ok());
  EXPECT_EQ(shown.CountOf(3), 1u);
}

TEST_F(ShownUpdatesTest, ADamagedFileIsNamed) {
  // Broken: a file that cannot be read would count as one that says nothing was shown.
  for (const std::string text : {"", "7", "7 \n", "7 x\n", "-1 2\n", "7 2 3\n"}) {
    ASSERT_TRUE(WriteFileDurably(env_.files, "/r/mask_shown", BytesOf(text)).ok());
    const absl::Status loaded = ShownUpdates(env_, "/r").Load();
    EXPECT_EQ(loaded.code(), absl::StatusCode::kDataLoss) << text;
    EXPECT_THAT(std::string(loaded.message()), ::testing::HasSubstr("/r/mask_shown")) << text;
  }
}

}  // namespace
}  // namespace atolld
