// The coordinator's store on a simulated disk: what Apply has reported as durable stays, at
// whatever instant the process dies.
#include "tests/sim/sim_store.h"

#include <gtest/gtest.h>

#include "tests/sim/sim_world.h"

namespace atolld {
namespace {

RunUpdate Epoch(uint64_t epoch) {
  RunUpdate update;
  update.epoch = epoch;
  return update;
}

// If this failed, the simulated coordinator would forget what its store promised, or remember what
// it refused; and every violation found with it would be the store's own.
TEST(SimStoreTest, DurableFromTheInstantThatApplyReturns) {
  for (const auto crash : {SimDisk::Crash::kLoseUnsynced, SimDisk::Crash::kKeepUnsynced,
                           SimDisk::Crash::kLoseBytes, SimDisk::Crash::kTornLast}) {
    for (uint64_t at = 1; at <= 16; ++at) {
      SimDisk disk;
      const auto memory = std::make_shared<SimStore::Disk>();
      uint64_t promised = 0;
      uint64_t told = 0;
      memory->on_durable = [&](const RunUpdate& update) { told = *update.epoch; };
      {
        SimFiles files(disk);
        SimStore store(files, "/store", memory);
        ASSERT_TRUE(store.Load().ok());
        disk.CrashAtWrite(at, crash);
        for (uint64_t epoch = 1; store.Apply(Epoch(epoch)).ok(); ++epoch) promised = epoch;
      }
      SimFiles files(disk);
      const absl::StatusOr<StoredRun> after = SimStore(files, "/store", memory).Load();
      ASSERT_TRUE(after.ok()) << after.status();
      EXPECT_GE(after->epoch, promised) << "crash " << static_cast<int>(crash) << " at " << at;
      EXPECT_LE(after->epoch, promised + 1);
      EXPECT_EQ(told, after->epoch) << "each durable transaction is told of once";
    }
  }
}

// If this failed, a full disk would leave half a transaction behind.
TEST(SimStoreTest, FullDiskLeavesNothing) {
  SimDisk disk;
  SimFiles files(disk);
  SimStore store(files, "/store", std::make_shared<SimStore::Disk>());
  ASSERT_TRUE(store.Load().ok());
  ASSERT_TRUE(store.Apply(Epoch(1)).ok());
  disk.SetCapacity(disk.used() + 10);
  EXPECT_TRUE(absl::IsResourceExhausted(store.Apply(Epoch(2))));
  EXPECT_EQ(store.Load()->epoch, 1u);
  disk.EndFaults();
  ASSERT_TRUE(store.Apply(Epoch(2)).ok());
  EXPECT_EQ(store.Load()->epoch, 2u);
}

}  // namespace
}  // namespace atolld
