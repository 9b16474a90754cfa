#include "daemon/etcd/store_migration.h"

#include <memory>
#include <string>

#include "daemon/coordinator/run_move.h"
#include "daemon/coordinator/sqlite_store.h"
#include "daemon/env/posix_files.h"
#include "daemon/etcd/etcd_place.h"
#include "daemon/etcd/etcd_store.h"
#include "daemon/identity/credentials.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/daemon/coordinator/stored_updates.h"
#include "tests/unit/daemon/env/temporary_directory.h"
#include "tests/unit/daemon/etcd/etcd_process.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

// More than one page of etcd's, and more than one transaction.
constexpr uint64_t kManyRounds = 400;

Config AloneIn(const TemporaryDirectory& directory) {
  PosixFiles files;
  EXPECT_TRUE(OpenHistoryKey(files, directory.path(), true).ok());
  Config config;
  config.run.id = "long";
  config.network.plaintext = true;
  config.coordinator.address = "127.0.0.1:7070";
  config.coordinator.dir = directory.path();
  return config;
}

Config SharedAt(const std::string& endpoint, Config config) {
  config.coordinator.store = "etcd";
  config.coordinator.etcd = endpoint;
  config.coordinator.etcd_lease = absl::Seconds(1);
  return config;
}

MigrationOrder FromTo(const Config& from, const Config& to) {
  MigrationOrder order;
  order.from_file = "alone.toml";
  order.to_file = "shared.toml";
  order.from = from;
  order.to = to;
  order.move = "m";
  order.now = absl::FromUnixSeconds(1800000000);
  return order;
}

void Fill(const Config& config) {
  PosixFiles files;
  auto store = SqliteStore::Open(files, config.coordinator.dir);
  ASSERT_TRUE(store.ok()) << store.status();
  FillWithRun(**store, kManyRounds);
}

// What a coordinator of this config finds.
absl::StatusOr<std::string> FoundBy(const Config& config) {
  PosixFiles files;
  std::unique_ptr<Store> store;
  if (config.coordinator.store == "etcd") {
    const EtcdPlace place = *EtcdPlaceOf(files, config);
    store = std::make_unique<EtcdStore>(place.access, place.prefix, nullptr);
  } else {
    store = *SqliteStore::Open(files, config.coordinator.dir);
  }
  auto run = store->Load();
  if (!run.ok()) return run.status();
  run->headers = *store->ReadHeaders(0, 10000);
  std::string text = TextOf(*run);
  for (const auto& header : run->headers) text += header.SerializeAsString();
  return text;
}

// Would break: something of a run is lost on its way to etcd or back, or both stores have it.
TEST(StoreMigration, ThereAndBack) {
  SKIP_WITHOUT_ETCD();
  EtcdProcess etcd;
  PosixFiles files;
  const TemporaryDirectory directory;
  const Config alone = AloneIn(directory), shared = SharedAt(etcd.endpoint(), alone);
  Fill(alone);
  const std::string before = *FoundBy(alone);

  const auto there = MigrateStore(files, FromTo(alone, shared));
  ASSERT_TRUE(there.ok()) << there.status();
  EXPECT_EQ(there->run_id, "long");
  EXPECT_EQ(there->headers, kManyRounds);
  EXPECT_EQ(there->to, "atoll/long/ in etcd at " + etcd.endpoint());
  EXPECT_EQ(*FoundBy(shared), before);
  EXPECT_THAT(std::string(FoundBy(alone).status().message()),
              HasSubstr("has moved to " + there->to));

  const auto back = MigrateStore(files, FromTo(shared, alone));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->rows, there->rows);
  EXPECT_EQ(back->bytes, there->bytes);
  EXPECT_EQ(*FoundBy(alone), before);
  EXPECT_THAT(std::string(FoundBy(shared).status().message()), HasSubstr("has moved to"));
}

// Would break: half a run in etcd is led as if it were whole.
TEST(StoreMigration, AHalfCopyInEtcdIsNoStore) {
  SKIP_WITHOUT_ETCD();
  EtcdProcess etcd;
  PosixFiles files;
  const TemporaryDirectory directory;
  const Config alone = AloneIn(directory), shared = SharedAt(etcd.endpoint(), alone);
  Fill(alone);
  const std::string before = *FoundBy(alone);
  {
    const EtcdPlace place = *EtcdPlaceOf(files, shared);
    const auto hold = EtcdHold::Take(place, shared, "");
    ASSERT_TRUE(hold.ok()) << hold.status();
    EtcdStore store(place.access, place.prefix, hold->term());
    v1::StoreMark arriving;
    arriving.set_kind(v1::StoreMark::ARRIVING);
    arriving.set_run_id("long");
    ASSERT_TRUE(store.WriteMark(&arriving).ok());
    RunUpdate some;
    some.members = {{"zz", "z:1", "live"}};  // of which the copy knows nothing
    ASSERT_TRUE(store.Apply(some).ok());
  }
  EXPECT_THAT(std::string(FoundBy(shared).status().message()), HasSubstr("is not whole"));
  ASSERT_TRUE(MigrateStore(files, FromTo(alone, shared)).ok());
  EXPECT_EQ(*FoundBy(shared), before);
  // The old store can be opened again.
  const auto undone = UndoMigration(files, "alone.toml", alone);
  ASSERT_TRUE(undone.ok()) << undone.status();
  EXPECT_TRUE(undone->moved);
  EXPECT_EQ(*FoundBy(alone), before);
  EXPECT_TRUE(absl::IsAlreadyExists(MigrateStore(files, FromTo(alone, shared)).status()));
}

// Would break: a run is moved away under the coordinator that leads it.
TEST(StoreMigration, NotWhileACoordinatorLeads) {
  SKIP_WITHOUT_ETCD();
  EtcdProcess etcd;
  PosixFiles files;
  const TemporaryDirectory directory;
  const Config alone = AloneIn(directory), shared = SharedAt(etcd.endpoint(), alone);
  Fill(alone);
  const auto leader = EtcdHold::Take(*EtcdPlaceOf(files, shared), shared, "");
  ASSERT_TRUE(leader.ok()) << leader.status();
  const absl::Status refused = MigrateStore(files, FromTo(alone, shared)).status();
  EXPECT_TRUE(absl::IsUnavailable(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("127.0.0.1:7070 leads the run: stop all"));
  EXPECT_TRUE(FoundBy(alone).ok());
}

// Would break: what is wrong with a call is found out late, or not said.
TEST(StoreMigration, SaysWhatIsWrong) {
  PosixFiles files;
  const TemporaryDirectory directory, other;
  const Config alone = AloneIn(directory);
  const auto why = [&](const Config& from, const Config& to, absl::StatusCode code) {
    const absl::Status status = MigrateStore(files, FromTo(from, to)).status();
    EXPECT_EQ(status.code(), code) << status;
    return std::string(status.message());
  };
  const Config shared = SharedAt(DeadEndpoint(), alone);
  EXPECT_THAT(why(alone, alone, absl::StatusCode::kInvalidArgument),
              HasSubstr("alone.toml and shared.toml both have [coordinator] store = 'sqlite'"));
  Config renamed = shared;
  renamed.run.id = "short";
  EXPECT_THAT(why(alone, renamed, absl::StatusCode::kInvalidArgument),
              HasSubstr("[run] id is long in alone.toml, and short in shared.toml"));
  EXPECT_THAT(why(alone, shared, absl::StatusCode::kNotFound),
              HasSubstr("coordinator.db: there is none"));
  Fill(alone);
  Config elsewhere = shared;
  elsewhere.coordinator.dir = directory.File("nowhere");
  EXPECT_THAT(why(alone, elsewhere, absl::StatusCode::kNotFound), HasSubstr("does not exist"));
  elsewhere.coordinator.dir = AloneIn(other).coordinator.dir;
  EXPECT_THAT(why(alone, elsewhere, absl::StatusCode::kFailedPrecondition),
              HasSubstr("has other keys"));
  EXPECT_THAT(why(alone, shared, absl::StatusCode::kUnavailable), HasSubstr("etcd at 127.0.0.1:"));
  EXPECT_TRUE(FoundBy(alone).ok());
}

}  // namespace
}  // namespace atolld
