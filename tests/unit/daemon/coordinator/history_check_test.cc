// A long history's start, and what is found of a damaged store.
#include "daemon/coordinator/history_check.h"

#include <sqlite3.h>

#include <string>

#include "daemon/coordinator/coordinator.h"
#include "daemon/coordinator/sqlite_store.h"
#include "daemon/env/posix_files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "membership/history/header.h"
#include "tests/bench/long_history.h"
#include "tests/sim/sim_world.h"
#include "tests/unit/daemon/env/temporary_directory.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kRounds = 800;
constexpr uint64_t kAPage = 256;

// A run of so many rounds on disk.
struct KeptRun {
  explicit KeptRun(uint64_t rounds = kRounds) {
    config.run.id = "long";
    config.run.rounds = 2 * rounds;
    config.model.kind = "stub";
    config.model.parameters = 100000;
    config.coordinator.address = "127.0.0.1:7070";
    history.emplace(config, 3, key);
    const std::unique_ptr<Store> store = Open();
    EXPECT_TRUE(store->Apply(history->Begin()).ok());
    // Transactions that end between checkpoints, as those of single rounds do.
    for (uint64_t left = rounds; left > 0; left -= std::min<uint64_t>(left, 100)) {
      EXPECT_TRUE(store->Apply(history->Next(std::min<uint64_t>(left, 100))).ok());
    }
  }
  std::unique_ptr<Store> Open() {
    PosixFiles files;
    auto store = SqliteStore::Open(files, directory.path());
    EXPECT_TRUE(store.ok()) << store.status();
    return *std::move(store);
  }
  absl::StatusOr<HistoryCheck> Check(HistoryExtent extent) {
    const std::unique_ptr<Store> store = Open();
    run = *store->Load();
    return CheckHistory(*store, extent, &run);
  }
  void Sql(const std::string& sql) {
    sqlite3* database = nullptr;
    ASSERT_EQ(sqlite3_open((directory.path() + "/coordinator.db").c_str(), &database), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(database, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK) << sql;
    EXPECT_GT(sqlite3_total_changes(database), 0) << sql;
    sqlite3_close(database);
  }

  const TemporaryDirectory directory;
  Config config;
  SigningKey key = *SigningKey::FromSeed(std::string(32, 'k'));
  std::optional<LongHistory> history;
  StoredRun run;
};

// Would break: a coordinator of a long run takes a minute to come back, in memory that grows with
// the history.
TEST(HistoryCheckTest, AStartReadsTheHeadersSinceTheCheckpoint) {
  constexpr uint64_t kLong = 3000;
  KeptRun f(kLong);
  const auto check = f.Check(HistoryExtent::kSinceCheckpoint);
  ASSERT_TRUE(check.ok()) << check.status();
  EXPECT_EQ(check->unfit, "");
  EXPECT_FALSE(check->renewal.has_value());
  EXPECT_GE(f.run.checkpoint.version, kLong - kAPage - 100);
  EXPECT_EQ(check->headers, kLong - f.run.checkpoint.version);
  EXPECT_EQ(f.run.headers.size(), check->headers);
  EXPECT_EQ(f.run.version(), kLong);
  // What the run then knows is what it knew.
  HistorySummary summary(f.run.checkpoint);
  for (const auto& header : f.run.headers) summary.Add(header, ToBytes(HeaderDigest(header)));
  const HistorySummary& known = f.history->ledger().history();
  const std::string genesis = ToBytes(GenesisDigest(f.history->genesis()));
  EXPECT_EQ(summary.ProvenDigest(genesis), known.ProvenDigest(genesis));
  EXPECT_EQ(summary.digest(7), known.digest(7));
  EXPECT_EQ(summary.contributors().at("volunteer-2").rounds, kLong);
  EXPECT_LE(summary.bytes(), 2 * kLong * kDigestBytes);
}

// Would break: `--verify` does not look at what a start leaves out.
TEST(HistoryCheckTest, TheWholeCheckFindsWhatAStartLeavesOut) {
  KeptRun f;
  const auto whole = f.Check(HistoryExtent::kWhole);
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_EQ(whole->headers, kRounds);
  f.Sql(
      "UPDATE headers SET header = (SELECT header FROM headers WHERE version = 70) "
      "WHERE version = 71");
  EXPECT_TRUE(f.Check(HistoryExtent::kSinceCheckpoint).ok());
  const auto damaged = f.Check(HistoryExtent::kWhole);
  EXPECT_TRUE(absl::IsDataLoss(damaged.status())) << damaged.status();
  EXPECT_THAT(damaged.status().message(), HasSubstr("header 71 is that of 70"));
  f.Sql("DELETE FROM headers WHERE version = 71");
  EXPECT_TRUE(f.Check(HistoryExtent::kSinceCheckpoint).ok());
  EXPECT_THAT(f.Check(HistoryExtent::kWhole).status().message(), HasSubstr("header 71 is missing"));
}

// Would break: a damaged checkpoint is believed, or ends a run whose headers are all there.
TEST(HistoryCheckTest, ACheckpointThatDoesNotFitIsRefusedAndAllIsChecked) {
  const char* const damages[] = {
      "UPDATE checkpoint SET proof = x'00'",
      "UPDATE checkpoint SET version = version - 1",
      "UPDATE checkpoint_digests SET digests = zeroblob(length(digests)) WHERE after = 0",
      "UPDATE checkpoint_contributors SET tokens = 1",
      "DELETE FROM checkpoint_contributors",
      "DELETE FROM checkpoint_digests"};
  KeptRun f;
  for (const char* damage : damages) {
    f.Sql(damage);
    const auto check = f.Check(HistoryExtent::kSinceCheckpoint);
    ASSERT_TRUE(check.ok()) << damage << check.status();
    EXPECT_NE(check->unfit, "") << damage;
    EXPECT_EQ(check->headers, kRounds) << damage;
    // Its coordinator writes a new one, and the next start is short again.
    SimWorld world(1);
    Coordinator coordinator(world.AddProcess("c").env(), f.config, f.Open(), nullptr,
                            [&](bool) { return f.key; });
    ASSERT_TRUE(coordinator.Start().ok()) << damage;
    EXPECT_EQ(world.LogCount("all 800 headers were checked instead"), 1u) << world.LogText();
    coordinator.Stop();
    const auto again = f.Check(HistoryExtent::kSinceCheckpoint);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(again->unfit, "") << damage;
    EXPECT_LE(again->headers, kAPage) << damage;
  }
}

// Would break: a store that lost its newest headers is believed to have them.
TEST(HistoryCheckTest, ACheckpointBeyondTheHeadersIsRefused) {
  KeptRun f;
  f.Sql("DELETE FROM headers WHERE version > 500");
  const auto check = f.Check(HistoryExtent::kSinceCheckpoint);
  ASSERT_TRUE(check.ok()) << check.status();
  EXPECT_THAT(check->unfit, HasSubstr("does not belong to the header that is there"));
  EXPECT_EQ(check->headers, 500u);
  EXPECT_EQ(f.run.version(), 500u);
}

// Would break: a store that ends at its checkpoint has no newest header to go on from.
TEST(HistoryCheckTest, TheCheckpointMayBeTheEnd) {
  KeptRun f;
  ASSERT_TRUE(f.Check(HistoryExtent::kSinceCheckpoint).ok());
  const uint64_t end = f.run.checkpoint.version;
  f.Sql("DELETE FROM headers WHERE version > " + std::to_string(end));
  const auto check = f.Check(HistoryExtent::kSinceCheckpoint);
  ASSERT_TRUE(check.ok()) << check.status();
  EXPECT_EQ(check->unfit, "");
  EXPECT_EQ(check->headers, 0u);
  ASSERT_TRUE(f.run.newest.has_value());
  EXPECT_EQ(f.run.newest->version(), end);
  SimWorld world(1);
  Coordinator coordinator(world.AddProcess("c").env(), f.config, f.Open(), nullptr,
                          [&](bool) { return f.key; });
  EXPECT_TRUE(coordinator.Start().ok());
  EXPECT_EQ(world.LogCount("version " + std::to_string(end)), 1u) << world.LogText();
}

// Would break: a store that a release without checkpoints wrote has none for ever.
TEST(HistoryCheckTest, WithoutACheckpointOneIsMadeAtTheStart) {
  KeptRun f;
  f.Sql("DELETE FROM checkpoint");
  f.Sql("DELETE FROM checkpoint_digests");
  f.Sql("DELETE FROM checkpoint_contributors");
  const auto first = f.Check(HistoryExtent::kSinceCheckpoint);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->unfit, "");
  EXPECT_EQ(first->headers, kRounds);
  ASSERT_TRUE(first->renewal.has_value());
  EXPECT_GE(first->renewal->version, kRounds - kAPage);
  SimWorld world(1);
  Coordinator coordinator(world.AddProcess("c").env(), f.config, f.Open(), nullptr,
                          [&](bool) { return f.key; });
  ASSERT_TRUE(coordinator.Start().ok());
  coordinator.Stop();
  const auto check = f.Check(HistoryExtent::kSinceCheckpoint);
  ASSERT_TRUE(check.ok()) << check.status();
  EXPECT_LE(check->headers, kAPage);
}

}  // namespace
}  // namespace atolld
