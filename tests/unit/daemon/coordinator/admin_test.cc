// What operators see and order, over the network and the store; and a store that is behind its
// peers.
#include "atoll/v1/admin.pb.h"
#include "daemon/coordinator/sqlite_store.h"
#include "daemon/env/posix_files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "membership/history/header.h"
#include "membership/history/receipt.h"
#include "tests/unit/daemon/coordinator/coordinator_world.h"
#include "tests/unit/daemon/env/temporary_directory.h"

namespace atolld {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

// Would break: `atoll run show`.
TEST(Admin, ShowsTheWholeRun) {
  AdminWorld f;
  ASSERT_TRUE(f.RunToVersion(3));
  f.world.RunFor(absl::Seconds(1));
  Asker<v1::RunStatus> asker(f.env(), f.config.coordinator.address, "ShowRun",
                             v1::ShowRunRequest());
  f.world.RunFor(absl::Milliseconds(100));
  ASSERT_TRUE(asker.status.has_value());
  EXPECT_TRUE(asker.status->ok()) << *asker.status;
  ASSERT_EQ(asker.answers.size(), 1u);
  const v1::RunStatus& status = asker.answers[0];
  EXPECT_EQ(status.version(), 3u);
  EXPECT_EQ(status.phase(), "training");
  EXPECT_EQ(status.reason(), "");
  EXPECT_EQ(status.parameters(), 3u * 4096);
  EXPECT_EQ(status.rounds_size(), 3);
  EXPECT_EQ(status.evaluations_size(), 2);
  EXPECT_EQ(status.tokens(), 600u);
  ASSERT_EQ(status.peers_size(), 2);
  EXPECT_EQ(status.peers(0).rounds_contributed(), 3u);
  EXPECT_EQ(status.peers(0).member().state(), "live");
  EXPECT_EQ(status.peers(0).progress().phase(), "training");
  EXPECT_EQ(status.rounds(1).train_loss(), 2);
  EXPECT_GT(status.elapsed_seconds(), 6);
  EXPECT_THAT(status.events(), Contains(HasSubstr("version 0 was made by")));
  EXPECT_THAT(status.events(), Not(Contains(HasSubstr("committed by"))));  // rounds() says it
}

// Would break: the live view misses a round, shows one twice, or floods its reader.
TEST(Admin, AWatcherGetsEverythingOnceUntilTheSeal) {
  AdminWorld f;
  ASSERT_TRUE(f.RunToVersion(2));
  v1::WatchRunRequest request;
  request.set_interval_milliseconds(1000);
  Asker<v1::RunStatus> asker(f.env(), f.config.coordinator.address, "WatchRun", request);
  ASSERT_TRUE(f.world.RunUntil([&] { return f.sealed; }, absl::Minutes(1)));
  f.world.RunFor(absl::Seconds(2));
  std::vector<uint64_t> versions;
  std::vector<std::string> events;
  size_t evaluations = 0;
  for (const v1::RunStatus& status : asker.answers) {
    for (const auto& round : status.rounds()) versions.push_back(round.version());
    for (const auto& event : status.events()) events.push_back(event);
    evaluations += static_cast<size_t>(status.evaluations_size());
  }
  EXPECT_EQ(versions, (std::vector<uint64_t>{1, 2, 3, 4, 5}));
  EXPECT_EQ(evaluations, 4u);
  EXPECT_EQ(std::count(events.begin(), events.end(), "the run is sealed at version 5"), 1);
  EXPECT_LE(asker.answers.size(), 20u);
  EXPECT_EQ(asker.answers.back().phase(), "sealed");
  EXPECT_EQ(asker.answers.back().seal().version(), 5u);
  ASSERT_TRUE(asker.status.has_value());  // it comes to its end, then the coordinator may
  EXPECT_TRUE(asker.status->ok()) << *asker.status;
}

// Would break: the coordinator ends with its process before a watcher on a slow link has been sent
// the seal, and the watcher waits for it for ever.
TEST(Admin, TheEndWaitsForItsWatchersButNotForOneThatIsCutOff) {
  for (const bool cut_off : {false, true}) {
    AdminWorld f;
    SimLinkSettings slow;
    slow.bytes_per_second = 3000;
    f.world.network().SetLink("coordinator", "operator", slow);
    ASSERT_TRUE(f.RunToVersion(2));
    Asker<v1::RunStatus> asker(f.env(), f.config.coordinator.address, "WatchRun",
                               v1::WatchRunRequest());
    f.world.RunFor(absl::Seconds(4));
    ASSERT_FALSE(asker.answers.empty());
    if (cut_off) f.world.network().BlackHole("coordinator", "operator");
    ASSERT_TRUE(f.world.RunUntil([&] { return f.sealed; }, absl::Minutes(1)));
    f.world.RunFor(absl::Milliseconds(10));  // what has gone out arrives without the process
    f.world.Kill("coordinator");
    f.world.RunFor(absl::Seconds(2));
    EXPECT_EQ(asker.answers.back().has_seal(), !cut_off);
  }
}

// Would break: `atoll log list`.
TEST(Admin, ListsHeaders) {
  AdminWorld f;
  ASSERT_TRUE(f.RunToVersion(4));
  v1::ListHeadersRequest request;
  request.set_first_version(2);
  request.set_limit(2);
  Asker<v1::ListHeadersResponse> asker(f.env(), f.config.coordinator.address, "ListHeaders",
                                       request);
  f.world.RunFor(absl::Seconds(1));
  ASSERT_EQ(asker.answers.size(), 1u);
  ASSERT_EQ(asker.answers[0].headers_size(), 2);
  EXPECT_EQ(asker.answers[0].headers(1).SerializeAsString(),
            f.disk->run.headers[2].SerializeAsString());
}

// Would break: `atoll peer list` and `atoll peer receipt`; or they count what a crash would forget.
TEST(Admin, TellsWhatEachHasGivenAndSignsForIt) {
  AdminWorld f;
  ASSERT_TRUE(f.RunToVersion(3));
  f.world.RunFor(absl::Milliseconds(100));
  v1::ListAccountsResponse accounts;
  ASSERT_TRUE(f.Ask("ListAccounts", v1::ListAccountsRequest(), &accounts).ok());
  EXPECT_EQ(accounts.version(), 3u);
  ASSERT_EQ(accounts.accounts_size(), 2);
  EXPECT_EQ(accounts.accounts(1).peer(), "b");
  EXPECT_EQ(accounts.accounts(1).rounds(), 3u);
  EXPECT_EQ(accounts.accounts(1).tokens(), 300u);
  EXPECT_EQ(accounts.accounts(1).share(), 0.5);
  v1::IssueReceiptRequest request;
  v1::Receipt receipt;
  request.set_peer("e");
  EXPECT_EQ(f.Ask("IssueReceipt", request, &receipt).code(), absl::StatusCode::kNotFound);
  request.set_peer("b");
  ASSERT_TRUE(f.Ask("IssueReceipt", request, &receipt).ok());
  EXPECT_EQ(CheckReceipt(receipt, f.key.public_key()), absl::OkStatus());
  EXPECT_EQ(receipt.account().SerializeAsString(), accounts.accounts(1).SerializeAsString());
  EXPECT_EQ(receipt.header_digest(), ToBytes(HeaderDigest(f.disk->run.headers[2])));

  f.world.Kill("coordinator");
  f.world.Restart("coordinator");
  v1::ListAccountsResponse again;
  ASSERT_TRUE(f.Ask("ListAccounts", v1::ListAccountsRequest(), &again).ok());
  EXPECT_EQ(again.accounts(1).SerializeAsString(), accounts.accounts(1).SerializeAsString());
}

// ------------------------------------------------------------------------------------------------
// What operators order, over the network and the store; and a store that is behind its peers.

// Would break: a pause that is answered before it is durable, or that a restart forgets.
TEST(Orders, APauseIsDurableWhenAnsweredAndHoldsOverARestart) {
  AdminWorld f;
  ASSERT_TRUE(f.RunToVersion(1));
  v1::PauseRunRequest request;
  request.set_reason("backup");
  v1::RunStatus status;
  ASSERT_TRUE(f.Ask("PauseRun", request, &status).ok());
  EXPECT_TRUE(status.paused());
  EXPECT_TRUE(f.disk->run.control.paused());
  f.world.RunFor(absl::Seconds(30));
  const uint64_t version = f.committed();
  EXPECT_LE(version, 2u);  // an exchange under way was finished
  f.world.Kill("coordinator");
  f.world.Restart("coordinator");
  f.world.RunFor(absl::Minutes(1));
  EXPECT_EQ(f.committed(), version);
  EXPECT_EQ(f.world.LogCount("died"), 0u);
  EXPECT_EQ(f.peer("a").waits.back(), "an operator has paused it: backup");
  ASSERT_TRUE(f.Ask("ShowRun", v1::ShowRunRequest(), &status).ok());
  EXPECT_EQ(status.phase(), "paused");
  EXPECT_EQ(status.epoch(), 2u);
  EXPECT_NEAR(status.epoch_seconds(), 60, 1);
  ASSERT_TRUE(f.Ask("ResumeRun", v1::ResumeRunRequest(), &status).ok());
  EXPECT_FALSE(status.paused());
  ASSERT_TRUE(f.world.RunUntil([&] { return f.sealed; }, absl::Minutes(2))) << f.world.LogText();
  EXPECT_EQ(f.peer("a").waits.back(), "");
}

// Would break: whoever asks is told "paused" while a crash would forget it, or is told that it
// failed, and the run pauses when the disk has room again.
TEST(Orders, NoneIsObeyedWhileTheDiskIsFull) {
  AdminWorld f;
  ASSERT_TRUE(f.RunToVersion(1));
  f.world.RunFor(absl::Milliseconds(100));
  f.disk->fails = absl::ResourceExhaustedError("full");
  Asker<v1::RunStatus> first(f.env(), f.config.coordinator.address, "PauseRun",
                             v1::PauseRunRequest());
  f.world.RunFor(absl::Seconds(1));
  ASSERT_TRUE(first.status.has_value());
  EXPECT_TRUE(absl::IsResourceExhausted(*first.status)) << *first.status;
  EXPECT_EQ(first.status->message(), "nothing has changed, since it could not be stored: full");
  v1::RunStatus status;
  for (const char* verb : {"PauseRun", "StopRun"}) {  // also once rounds wait for the disk
    f.world.RunFor(absl::Seconds(10));
    EXPECT_TRUE(absl::IsResourceExhausted(f.Ask(verb, v1::StopRunRequest(), &status))) << verb;
  }
  f.disk->fails = absl::OkStatus();
  f.world.RunFor(absl::Seconds(2));
  ASSERT_TRUE(f.Ask("ShowRun", v1::ShowRunRequest(), &status).ok());
  EXPECT_FALSE(status.paused());
  EXPECT_FALSE(status.stopping());
  ASSERT_TRUE(f.Ask("PauseRun", v1::PauseRunRequest(), &status).ok());
  EXPECT_TRUE(status.paused());
}

// Would break: a run that was stopped is not sealed, whatever instant the coordinator dies at.
TEST(Orders, AStoppedRunIsSealedWhateverInstantTheCoordinatorDiesAt) {
  for (int moment = 0; moment < 30; ++moment) {
    AdminWorld f(2, 2, 500);
    ASSERT_TRUE(f.RunToVersion(1));
    f.world.RunFor(absl::Milliseconds(moment < 15 ? 1990 + moment : 140 * moment));
    v1::RunStatus status;
    ASSERT_TRUE(f.Ask("StopRun", v1::StopRunRequest(), &status).ok());
    f.world.RunFor(absl::Milliseconds(moment % 7));
    if (!f.disk->run.seal) {
      f.world.Kill("coordinator");
      f.world.Restart("coordinator");
    }
    ASSERT_TRUE(f.world.RunUntil([&] { return f.sealed; }, absl::Minutes(3)))
        << "moment " << moment << "\n"
        << f.world.LogText();
    EXPECT_EQ(f.disk->run.seal->version(), f.committed());
    EXPECT_LE(f.committed(), 4u);
    EXPECT_EQ(f.disk->run.evaluations.back().version(), f.committed());
  }
}

// Would break: `atoll peer drain|evict`, their refusals, or what follows for the run.
TEST(Orders, PeersAreDrainedEvictedAndLetBack) {
  AdminWorld f(4, 3, 500);
  ASSERT_TRUE(f.RunToVersion(1));
  v1::DrainPeerRequest drain;
  v1::PeerStatus peer;
  drain.set_peer("dd");
  const absl::Status unknown = f.Ask("DrainPeer", drain, &peer);
  EXPECT_EQ(unknown.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(unknown.message(), HasSubstr("did you mean \"d\"?"));
  drain.set_peer("d");
  drain.set_reason("new disk");
  ASSERT_TRUE(f.Ask("DrainPeer", drain, &peer).ok());
  EXPECT_EQ(peer.why(), "new disk");
  EXPECT_EQ(peer.notice(), "");
  f.world.RunFor(absl::Seconds(1));
  v1::EvictPeerRequest evict;
  evict.set_peer("c");
  evict.set_reason("it lies");
  ASSERT_TRUE(f.Ask("EvictPeer", evict, &peer).ok());
  EXPECT_EQ(peer.member().state(), "evicted");
  EXPECT_THAT(peer.notice(), HasSubstr("2 peers stay, fewer than the quorum of 3"));
  f.world.RunFor(absl::Seconds(1));
  EXPECT_EQ(f.peer("c").closed.back().code(), absl::StatusCode::kPermissionDenied);
  f.world.Kill("c");
  f.world.Restart("c");
  f.world.RunFor(absl::Seconds(1));
  EXPECT_EQ(f.peer("c").closed.back().message(), "peer c was evicted: it lies");
  evict.set_undo(true);
  ASSERT_TRUE(f.Ask("EvictPeer", evict, &peer).ok());
  const uint64_t version = f.committed();
  f.world.Kill("c");
  f.world.Restart("c");
  EXPECT_TRUE(f.RunToVersion(version + 2)) << f.world.LogText();
}

// Would break: a run waits for its aggregator, and why that does not run is in a log alone.
TEST(Orders, AWaitingRunNamesWhatKeepsItsAggregatorFromRunning) {
  AdminWorld f(1);
  f.world.Kill("a");
  f.coordinator.lock()->SetAggregatorTrouble("cannot listen on h:2");
  v1::RunStatus status;
  ASSERT_TRUE(f.Ask("ShowRun", v1::ShowRunRequest(), &status).ok());
  EXPECT_THAT(status.reason(),
              HasSubstr("; the coordinator's own aggregator does not run: cannot"));
  f.coordinator.lock()->SetAggregatorTrouble("");
  ASSERT_TRUE(f.Ask("ShowRun", v1::ShowRunRequest(), &status).ok());
  EXPECT_THAT(status.reason(), Not(HasSubstr("aggregator")));
}

// Would break: a coordinator that was restored from a copy of its store loses the run.
TEST(Orders, ARestoredStoreAdoptsWhatItsPeersHold) {
  for (const bool empty : {false, true}) {
    AdminWorld f(3, 2, 9);
    ASSERT_TRUE(f.RunToVersion(2));
    const StoredRun copy = empty ? StoredRun() : f.disk->run;
    ASSERT_TRUE(f.RunToVersion(7));
    f.world.RunFor(absl::Milliseconds(500));
    const std::string newest = f.disk->run.headers.back().SerializeAsString();
    f.world.Kill("coordinator");
    f.disk->run = copy;
    f.world.Restart("coordinator");
    ASSERT_TRUE(f.world.RunUntil([&] { return f.sealed; }, absl::Minutes(2))) << f.world.LogText();
    ASSERT_EQ(f.committed(), 9u);
    EXPECT_EQ(f.disk->run.headers[6].SerializeAsString(), newest);
    EXPECT_TRUE(f.disk->run.genesis.has_value());
    EXPECT_EQ(f.disk->run.rounds.size(), 9u);
    EXPECT_EQ(f.world.LogCount("two histories"), 0u);
    EXPECT_EQ(f.world.LogCount("died"), 0u);
    EXPECT_EQ(f.world.LogCount("adopted its peers' history up to version 7"), 1u);
  }
}

// Would break: the same on the store of production, and with the coordinator killed in between.
TEST(Orders, AdoptionGoesOnAfterACrashInSqlite) {
  const TemporaryDirectory directory;
  PosixFiles files;
  AdminWorld f(3, 2, 9);
  ASSERT_TRUE(f.RunToVersion(7));
  f.world.RunFor(absl::Milliseconds(500));
  f.world.Kill("coordinator");
  for (int part = 0; part < 3; ++part) {
    auto store = SqliteStore::Open(files, directory.path());
    ASSERT_TRUE(store.ok()) << store.status();
    f.world.AddProcess("restored" + std::to_string(part), [&](Env env) {
      auto made =
          std::make_shared<Coordinator>(env, f.config, *std::move(store), nullptr, f.history_key);
      CHECK_OK(made->Start());
      made->OnSealed([&f] { f.sealed = true; });
      return made;
    });
    // They are told two in a message; what was told before is not asked for again.
    const std::string next = part == 0 ? "headers from 3 to 7" : "headers from 5 to 7";
    const auto reached = [&] { return part == 2 ? f.sealed : f.world.LogCount(next) == 1; };
    ASSERT_TRUE(f.world.RunUntil(reached, absl::Minutes(1))) << f.world.LogText();
    f.world.Kill("restored" + std::to_string(part));
  }
  EXPECT_EQ(f.world.LogCount("headers from 1 to 7"), 1u);
  auto store = SqliteStore::Open(files, directory.path());
  ASSERT_TRUE(store.ok()) << store.status();
  const StoredRun run = *(*store)->Load();
  EXPECT_EQ((*store)->ReadHeaders(0, 100)->size(), 9u);
  EXPECT_EQ(run.rounds.size(), 9u);
  EXPECT_TRUE(run.seal.has_value());
}

}  // namespace
}  // namespace atolld
