#include "daemon/coordinator/store.h"

#include <sqlite3.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "daemon/coordinator/sqlite_store.h"
#include "daemon/env/posix_files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/sim/sim_world.h"
#include "tests/unit/daemon/coordinator/stored_updates.h"
#include "tests/unit/daemon/env/temporary_directory.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<Store> Open(const std::string& directory) {
  PosixFiles files;
  auto store = SqliteStore::Open(files, directory);
  EXPECT_TRUE(store.ok()) << store.status();
  return store.ok() ? std::move(*store) : nullptr;
}

// Broken: SQLite says that it is unable to open a file, and nobody knows why.
TEST(SqliteStore, APathThatIsTooLongIsNamed) {
  const TemporaryDirectory directory;
  const std::string deep =
      directory.path() + "/" + std::string(250, 'x') + "/" + std::string(250, 'y');
  std::filesystem::create_directories(deep);
  PosixFiles files;
  const auto store = SqliteStore::Open(files, deep);
  EXPECT_THAT(std::string(store.status().message()), testing::HasSubstr("choose a shorter folder"));
}

// Would break: what the coordinator knows after it was killed. The memory store must behave as the
// real one does.
TEST(SqliteStore, HoldsEveryUpdateOverARestart) {
  const TemporaryDirectory directory;
  auto disk = std::make_shared<MemoryStore::Disk>();
  MemoryStore memory(disk);
  EXPECT_EQ(TextOf(*Open(directory.path())->Load()), "- epoch 0 next 0");
  for (const RunUpdate& update : StoredUpdates()) {
    ASSERT_TRUE(Open(directory.path())->Apply(update).ok());
    ASSERT_TRUE(memory.Apply(update).ok());
    EXPECT_EQ(TextOf(Loaded(*Open(directory.path()))), TextOf(Loaded(memory)));
  }
  const StoredRun run = Loaded(*Open(directory.path()));
  EXPECT_EQ(TextOf(run),
            "r epoch 3 started stopping genesis g h1 h2 [b 10+1] next 9223372036854775808 "
            "b@b:2=evicted(it lies) c@=live(asked)- t:t1,a,peer,1800000000," +
                std::string("\0k", 2) +
                " t:t2,b,aggregator,5,revoked,k c:c1,a! c:c2,b!,1700000000 c:c3,c "
                "c:c3x,c!,1700000001!!adminf00d,i1600000000,s1650000000 c:c5,d,8 r1 r2 "
                "e2.500000 m0x1p-70 m0x1.8p+90 m0x1.999999999999ap-4 "
                "j:a,2,1,1,it lies j:b,ffffffffffffffff,0,3, sealed 2");
  EXPECT_EQ(run.headers[0].SerializeAsString(), StoredHeader(1).SerializeAsString());
}

// Would break: a commit of which half is there after a crash.
TEST(SqliteStore, AnUpdateIsAllOrNothing) {
  const TemporaryDirectory directory;
  std::unique_ptr<Store> store = Open(directory.path());
  for (const RunUpdate& update : StoredUpdates()) ASSERT_TRUE(store->Apply(update).ok());
  const std::string before = TextOf(Loaded(*store));
  RunUpdate twice = StoredUpdates()[3];  // its round is there already, which is found late
  twice.epoch = 9;
  twice.headers = {StoredHeader(3), StoredHeader(4)};
  twice.leases->next = 1;
  EXPECT_FALSE(store->Apply(twice).ok());
  EXPECT_EQ(TextOf(Loaded(*store)), before);
}

// Would break: a crowd that joins waits for the disk once for each of them; or of updates that are
// stored together half are there after one of them failed.
TEST(SqliteStore, TakesManyUpdatesInOneTransaction) {
  const TemporaryDirectory directory;
  const TemporaryDirectory other;
  const std::vector<RunUpdate> updates = StoredUpdates();
  std::vector<const RunUpdate*> all;
  for (const RunUpdate& update : updates) {
    all.push_back(&update);
    ASSERT_TRUE(Open(other.path())->Apply(update).ok());
  }
  std::unique_ptr<Store> store = Open(directory.path());
  const absl::StatusOr<size_t> applied = store->ApplyFirst(all);
  ASSERT_TRUE(applied.ok()) << applied.status();
  EXPECT_EQ(*applied, updates.size());
  const std::string before = TextOf(Loaded(*store));
  EXPECT_EQ(before, TextOf(Loaded(*Open(other.path()))));
  RunUpdate fine;
  fine.epoch = 9;
  RunUpdate twice = updates[3];  // its round is there already
  EXPECT_FALSE(store->ApplyFirst({&fine, &twice}).ok());
  EXPECT_EQ(TextOf(Loaded(*store)), before);
}

// Would break: a checkpoint that is not what was written, or one whose parts do not fit each other,
// after it was renewed, after a gap, and after it was begun anew.
TEST(SqliteStore, RenewsTheCheckpointWithWhatIsNew) {
  const TemporaryDirectory directory;
  auto disk = std::make_shared<MemoryStore::Disk>();
  MemoryStore memory(disk);
  for (const RunUpdate& update : CheckpointUpdates()) {
    ASSERT_TRUE(Open(directory.path())->Apply(update).ok());
    ASSERT_TRUE(memory.Apply(update).ok());
    const StoredRun run = Loaded(*Open(directory.path()));
    EXPECT_EQ(TextOf(run), TextOf(Loaded(memory)));
    if (update.checkpoint && update.checkpoint->version == 3) {
      EXPECT_EQ(run.checkpoint.digests, std::string(64, 'd') + std::string(32, 'e'));
      ASSERT_EQ(run.checkpoint.contributors.size(), 2u);
      EXPECT_EQ(run.checkpoint.contributors[1].tokens, 9u);
    }
  }
  const StoredRun run = Loaded(*Open(directory.path()));
  EXPECT_EQ(run.checkpoint.digests, std::string(64, 'f'));
  EXPECT_EQ(run.checkpoint.contributors.size(), 1u);
  ASSERT_EQ(run.gaps.size(), 1u);
  EXPECT_EQ(run.headers.back().version(), 9u);
}

// Would break: a run that was begun with the release before cannot be continued with this one.
TEST(SqliteStore, ReadsTheTablesOfTheFirstRelease) {
  const TemporaryDirectory directory;
  sqlite3* database = nullptr;
  ASSERT_EQ(sqlite3_open((directory.path() + "/coordinator.db").c_str(), &database), SQLITE_OK);
  const char* const tables = R"(
    CREATE TABLE run (
      id INTEGER PRIMARY KEY CHECK (id = 1), spec BLOB, epoch INTEGER NOT NULL,
      started INTEGER NOT NULL, genesis BLOB, lease_next INTEGER NOT NULL);
    INSERT INTO run VALUES (1, NULL, 7, 1, NULL, 40);
    CREATE TABLE headers (version INTEGER PRIMARY KEY, header BLOB NOT NULL);
    CREATE TABLE leases (first INTEGER PRIMARY KEY, count INTEGER NOT NULL, holder BLOB NOT NULL);
    CREATE TABLE members (
      peer BLOB PRIMARY KEY, address BLOB NOT NULL, state BLOB NOT NULL) WITHOUT ROWID;
    INSERT INTO members VALUES (x'61', x'613a31', x'6c697665');
    CREATE TABLE evaluations (version INTEGER PRIMARY KEY, record BLOB NOT NULL);
    CREATE TABLE rounds (version INTEGER PRIMARY KEY, record BLOB NOT NULL);
    CREATE TABLE seal (id INTEGER PRIMARY KEY CHECK (id = 1), seal BLOB NOT NULL);
    PRAGMA user_version = 1;)";
  ASSERT_EQ(sqlite3_exec(database, tables, nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(database);
  EXPECT_EQ(TextOf(*Open(directory.path())->Load()), "- epoch 7 started next 40 a@a:1=live");
  RunUpdate update;
  update.control = RunControl{RunControl::State::kPaused, "why not"};
  ASSERT_TRUE(Open(directory.path())->Apply(update).ok());
  EXPECT_EQ(TextOf(*Open(directory.path())->Load()),
            "- epoch 7 started paused (why not) next 40 a@a:1=live");
}

// Would break: `atoll log list`.
TEST(SqliteStore, ReadsHeadersByRange) {
  const TemporaryDirectory directory;
  std::unique_ptr<Store> store = Open(directory.path());
  for (const RunUpdate& update : StoredUpdates()) ASSERT_TRUE(store->Apply(update).ok());
  EXPECT_EQ(store->ReadHeaders(0, 1)->size(), 1u);
  EXPECT_EQ(store->ReadHeaders(2, 9)->at(0).version(), 2u);
  EXPECT_TRUE(store->ReadHeaders(3, 9)->empty());
}

// Would break: a backup of a run that goes on fails, is torn, or holds up its commits.
TEST(SqliteStore, IsCopiedWhileItIsOpen) {
  const TemporaryDirectory directory;
  const TemporaryDirectory copy;
  PosixFiles files;
  const std::unique_ptr<Store> store = Open(directory.path());
  const std::vector<RunUpdate> updates = StoredUpdates();
  for (size_t i = 0; i + 1 < updates.size(); ++i) ASSERT_TRUE(store->Apply(updates[i]).ok());
  const std::string then = TextOf(Loaded(*store));
  // A reader amid its transaction, as a copy is while it runs.
  sqlite3* reader = nullptr;
  ASSERT_EQ(sqlite3_open(directory.File("coordinator.db").c_str(), &reader), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(reader, "BEGIN; SELECT count(*) FROM headers", nullptr, nullptr, nullptr),
            SQLITE_OK);
  ASSERT_TRUE(SqliteStore::Copy(files, directory.path(), copy.path()).ok());
  ASSERT_TRUE(store->Apply(updates.back()).ok());
  sqlite3_close(reader);
  EXPECT_EQ(TextOf(Loaded(*Open(copy.path()))), then);
  EXPECT_NE(TextOf(Loaded(*store)), then);
  const absl::Status again = SqliteStore::Copy(files, directory.path(), copy.path());
  EXPECT_EQ(again.code(), absl::StatusCode::kAlreadyExists) << again;
  const TemporaryDirectory empty;
  EXPECT_EQ(SqliteStore::Copy(files, empty.path(), copy.path()).code(),
            absl::StatusCode::kNotFound);
}

// Would break: a commit on a file system without a write-ahead log is lost with the power, or the
// error says nothing of what is wrong.
TEST(SqliteStore, WithoutAWriteAheadLogItDoesNotBegin) {
  const TemporaryDirectory directory;
  PosixFiles files;
  ASSERT_TRUE(files.MakeDirectories(directory.File("coordinator.db-wal")).ok());  // no file can be
  const auto opened = SqliteStore::Open(files, directory.path());
  EXPECT_EQ(opened.status().code(), absl::StatusCode::kFailedPrecondition) << opened.status();
  EXPECT_THAT(opened.status().message(), HasSubstr("write-ahead log"));
}

// Would break: a full disk looks like a broken store, and ends the run.
TEST(SqliteStore, AFullDiskIsSaidAndHarmsNothing) {
  const TemporaryDirectory directory;
  std::unique_ptr<Store> store = Open(directory.path());
  ASSERT_TRUE(store->Apply(StoredUpdates()[0]).ok());
  store.reset();
  PosixFiles files;
  SqliteStore::Options options;
  options.most_pages = 32;  // SQLite's own limit stands in for the disk's
  auto opened = SqliteStore::Open(files, directory.path(), options);
  ASSERT_TRUE(opened.ok()) << opened.status();
  const std::unique_ptr<Store> limited = std::move(*opened);
  RunUpdate large;
  large.genesis.emplace().set_state_digest(std::string(1 << 20, 'x'));
  const absl::Status status = limited->Apply(large);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(status.message(), HasSubstr("coordinator.db"));
  EXPECT_EQ(TextOf(*limited->Load()),
            "r epoch 3 next 0 t:t1,a,peer,1800000000, t:t2,b,aggregator,5,revoked,k c:c1,a "
            "c:c2,b!,1700000000");
  RunUpdate small;
  small.epoch = 4;
  EXPECT_TRUE(limited->Apply(small).ok());
}

// Would break: garbage, or a newer release's store, is overwritten.
TEST(SqliteStore, RefusesWhatItDoesNotKnow) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/coordinator.db";
  std::ofstream(path) << std::string(5000, 'x');
  PosixFiles files;
  EXPECT_EQ(SqliteStore::Open(files, directory.path()).status().code(),
            absl::StatusCode::kDataLoss);
  const TemporaryDirectory newer;
  Open(newer.path());
  sqlite3* database = nullptr;
  ASSERT_EQ(sqlite3_open((newer.path() + "/coordinator.db").c_str(), &database), SQLITE_OK);
  sqlite3_exec(database, "PRAGMA user_version = 99", nullptr, nullptr, nullptr);
  sqlite3_close(database);
  const absl::Status status = SqliteStore::Open(files, newer.path()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("newer release"));
}

// ------------------------------------------------------------------------------------------------

RunOutput Output(const std::string& line, uint64_t epoch = 0) {
  RunOutput output;
  output.events.push_back({RunOutput::Severity::kInfo, line});
  if (epoch != 0) output.update.epoch = epoch;
  return output;
}

// Would break: something is said before it is durable, or out of order.
TEST(Outbox, DeliversInOrderAndOnlyWhatIsDurable) {
  SimWorld world(1);
  SimProcess& process = world.AddProcess("p");
  auto disk = std::make_shared<MemoryStore::Disk>();
  std::string delivered;
  Outbox outbox(process.env(), std::make_shared<MemoryStore>(disk), [&](const RunOutput& output) {
    if (output.update.epoch) {
      EXPECT_EQ(disk->run.epoch, *output.update.epoch);
    }
    delivered += output.events[0].line;
  });
  outbox.Push(Output("a"));
  EXPECT_EQ(delivered, "a");  // nothing to wait for
  outbox.Push(Output("b", 1));
  outbox.Push(Output("c"));
  outbox.Push(Output("d", 2));
  EXPECT_EQ(delivered, "a");
  world.RunFor(absl::Seconds(1));
  EXPECT_EQ(delivered, "abcd");
}

// Would break: whoever asks while the disk is full waits for an answer, and what it was told had
// failed takes effect hours later; or a try that failed holds everything else back.
TEST(Outbox, ATryFailsAtOnceWhileTheDiskIsFullAndIsNotRepeated) {
  SimWorld world(1);
  SimProcess& process = world.AddProcess("p");
  auto disk = std::make_shared<MemoryStore::Disk>();
  std::string delivered;
  Outbox outbox(process.env(), std::make_shared<MemoryStore>(disk),
                [&](const RunOutput& output) { delivered += output.events[0].line; });
  std::vector<absl::Status> told;
  const auto attempt = [&](uint64_t epoch) {
    RunUpdate update;
    update.epoch = epoch;
    outbox.Try(update, [&](absl::Status status) { told.push_back(status); });
  };
  outbox.Push(Output("a", 1));
  attempt(7);
  EXPECT_TRUE(told.empty());
  world.RunFor(absl::Seconds(1));
  ASSERT_EQ(told.size(), 1u);
  EXPECT_TRUE(told[0].ok()) << told[0];
  EXPECT_EQ(disk->run.epoch, 7u);

  disk->fails = absl::ResourceExhaustedError("full");
  attempt(8);
  world.RunFor(absl::Seconds(1));
  ASSERT_EQ(told.size(), 2u);
  EXPECT_TRUE(absl::IsResourceExhausted(told[1])) << told[1];
  EXPECT_EQ(outbox.stalled(), "") << "nothing waits for the disk";
  outbox.Push(Output("b", 2));
  attempt(9);
  world.RunFor(absl::Milliseconds(1));
  attempt(10);
  world.RunFor(absl::Seconds(2));
  EXPECT_EQ(outbox.stalled(), "full");
  EXPECT_EQ(told.size(), 4u);
  disk->fails = absl::OkStatus();
  world.RunFor(absl::Seconds(3));
  EXPECT_EQ(delivered, "ab");
  EXPECT_EQ(disk->run.epoch, 2u) << "no try was repeated";
  EXPECT_EQ(told.size(), 4u);
}

// Would break: a full disk ends the run, or lets unstored promises out.
TEST(Outbox, WaitsWhileTheDiskIsFull) {
  SimWorld world(1);
  SimProcess& process = world.AddProcess("p");
  auto disk = std::make_shared<MemoryStore::Disk>();
  std::string delivered;
  Outbox outbox(process.env(), std::make_shared<MemoryStore>(disk),
                [&](const RunOutput& output) { delivered += output.events[0].line; });
  disk->fails = absl::ResourceExhaustedError("full");
  outbox.Push(Output("a", 1));
  outbox.Push(Output("b"));
  world.RunFor(absl::Seconds(10));
  EXPECT_EQ(delivered, "");
  EXPECT_EQ(outbox.stalled(), "full");
  disk->fails = absl::OkStatus();
  world.RunFor(absl::Seconds(2));
  EXPECT_EQ(delivered, "ab");
  EXPECT_EQ(outbox.stalled(), "");
}

}  // namespace
}  // namespace atolld
