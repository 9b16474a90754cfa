#include "daemon/coordinator/coordinator.h"

#include "daemon/replica/state/branch_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "membership/history/header.h"
#include "tests/unit/daemon/coordinator/coordinator_world.h"
#include "tests/unit/daemon/replica/state/test_run.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

// Would break: everything; a whole run from nothing to its seal.
TEST(Coordinator, RunsFromGenesisToSeal) {
  CoordinatorWorld w(3);
  w.AddCoordinator();
  for (const char* peer : {"a", "b", "c"}) w.AddPeer(peer);
  ASSERT_TRUE(w.world.RunUntil([&] { return w.sealed; }, absl::Minutes(2))) << w.world.LogText();
  const StoredRun& run = w.disk->run;
  EXPECT_EQ(run.headers.size(), 5u);
  EXPECT_EQ(run.seal->version(), 5u);
  EXPECT_EQ(run.evaluations.size(), 4u);  // 0, 2, 4, 5
  for (const v1::EntryHeader& header : run.headers) EXPECT_EQ(header.contributors_size(), 3);
  EXPECT_EQ(run.leases.next, 5u * 3 * 5 * w.config.inner.batch);
  EXPECT_EQ(w.world.LogCount("died"), 0u);
  EXPECT_EQ(w.world.LogCount("round 5: committed by a, b, c"), 1u);
}

// Would break: a killed peer stops the run, or comes back as a stranger.
TEST(Coordinator, APeerDiesAndComesBack) {
  CoordinatorWorld w(3, 0, 8);
  w.AddCoordinator();
  for (const char* peer : {"a", "b", "c"}) w.AddPeer(peer);
  ASSERT_TRUE(w.RunToVersion(2));
  w.world.RunFor(absl::Seconds(1));
  w.world.Kill("b");
  ASSERT_TRUE(w.RunToVersion(4)) << w.world.LogText();
  EXPECT_EQ(w.world.LogCount("peer b died"), 1u);
  EXPECT_EQ(w.disk->run.headers[3].contributors_size(), 2);
  w.world.Restart("b");
  ASSERT_TRUE(w.world.RunUntil([&] { return w.sealed; }, absl::Minutes(2))) << w.world.LogText();
  EXPECT_EQ(w.disk->run.headers.back().contributors_size(), 3);
}

// Would break: a version that was announced is lost, or the run does not go on, when the
// coordinator is killed at any moment of a round.
TEST(Coordinator, ItIsKilledAtAnyMomentAndGoesOn) {
  for (int moment = 0; moment < 40; ++moment) {
    CoordinatorWorld w(2, 2, 3);
    w.AddCoordinator();
    for (const char* peer : {"a", "b"}) w.AddPeer(peer);
    w.world.RunFor(absl::Milliseconds(1) + absl::Milliseconds(moment < 20 ? moment : 137 * moment));
    w.world.Kill("coordinator");
    w.world.RunFor(absl::Milliseconds(500));
    uint64_t announced = 0;
    for (const char* peer : {"a", "b"}) announced = std::max(announced, w.peer(peer).version);
    EXPECT_LE(announced, w.committed());
    w.world.Restart("coordinator");
    ASSERT_TRUE(w.world.RunUntil([&] { return w.sealed; }, absl::Minutes(3)))
        << "moment " << moment << "\n"
        << w.world.LogText();
    EXPECT_EQ(w.disk->run.headers.size(), 3u);
    EXPECT_EQ(w.disk->run.epoch, 2u);
  }
}

// Would break: peers step by a header that a crash of the coordinator takes back.
TEST(Coordinator, NothingIsAnnouncedWhileTheDiskIsFull) {
  CoordinatorWorld w(2);
  w.AddCoordinator();
  for (const char* peer : {"a", "b"}) w.AddPeer(peer);
  ASSERT_TRUE(w.RunToVersion(1));
  w.world.RunFor(absl::Milliseconds(100));
  ASSERT_EQ(w.peer("a").version, 1u);
  w.disk->fails = absl::ResourceExhaustedError("/dir/coordinator.db: database or disk is full");
  w.world.RunFor(absl::Seconds(30));
  EXPECT_EQ(w.peer("a").version, 1u);
  EXPECT_EQ(w.committed(), 1u);
  EXPECT_EQ(w.world.LogCount("disk is full"), 1u);
  EXPECT_EQ(w.world.LogCount("died"), 0u);
  w.disk->fails = absl::OkStatus();
  EXPECT_TRUE(w.world.RunUntil([&] { return w.sealed; }, absl::Minutes(2)));
}

// Would break: stray or hostile connections.
TEST(Coordinator, RefusesWhatIsNoSession) {
  CoordinatorWorld w(1);
  w.AddCoordinator();
  SimProcess& stranger = w.world.AddProcess("stranger");
  const auto status_of = [&](const std::string& method, const std::string& bytes) {
    absl::Status status = absl::UnknownError("open");
    auto call = stranger.env().transport.Dial(w.config.coordinator.address, method,
                                              absl::InfiniteDuration());
    call->Start({nullptr, nullptr, [&](const absl::Status& closed) { status = closed; }});
    call->Write({bytes, SharedBytes()});
    w.world.RunFor(absl::Seconds(12));
    return status;
  };
  const std::string session = "/atolld.v1.Membership/Session";
  v1::PeerMessage message;
  EXPECT_EQ(status_of("/atolld.v1.Nobody/Method", "").code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(status_of(session, "\xff\xff\xff").code(), absl::StatusCode::kInvalidArgument);
  message.mutable_heartbeat();
  EXPECT_EQ(status_of(session, message.SerializeAsString()).code(),
            absl::StatusCode::kInvalidArgument);
  message.mutable_hello()->set_peer(std::string(2 << 20, 'x'));
  EXPECT_EQ(status_of(session, message.SerializeAsString()).code(),
            absl::StatusCode::kResourceExhausted);
  message.mutable_hello()->set_peer("UPPER");
  EXPECT_EQ(status_of(session, message.SerializeAsString()).code(),
            absl::StatusCode::kInvalidArgument);
  absl::Status silent = absl::UnknownError("open");
  auto call = stranger.env().transport.Dial(w.config.coordinator.address, session,
                                            absl::InfiniteDuration());
  call->Start({nullptr, nullptr, [&](const absl::Status& closed) { silent = closed; }});
  w.world.RunFor(absl::Seconds(12));
  EXPECT_EQ(silent.code(), absl::StatusCode::kDeadlineExceeded);
}

absl::Status StartStatus(CoordinatorWorld& w) {
  static int processes = 0;
  SimProcess& process = w.world.AddProcess("starter" + std::to_string(++processes));
  Coordinator coordinator(process.env(), w.config, std::make_unique<MemoryStore>(w.disk));
  return coordinator.Start();
}

// Would break: a run that silently changes its rules, mixes with another, or is open to the
// network.
TEST(Coordinator, StartRefusesWhatCannotBeRight) {
  CoordinatorWorld w(1);
  EXPECT_TRUE(StartStatus(w).ok());
  EXPECT_TRUE(StartStatus(w).ok());
  EXPECT_EQ(w.disk->run.epoch, 2u);
  w.config.run.rounds = 9;
  EXPECT_THAT(StartStatus(w).message(), HasSubstr("rounds: 5 -> 9"));
  w.config.run.rounds = 5;
  w.config.run.id = "other";
  EXPECT_THAT(StartStatus(w).message(), HasSubstr("it holds run r1"));
  w.config.run.id = "";
  EXPECT_TRUE(StartStatus(w).ok());  // the store knows
  w.config.coordinator.listen = "0.0.0.0:7070";
  w.config.network.plaintext = true;
  EXPECT_THAT(StartStatus(w).message(), HasSubstr("in plain text others could read"));
  w.config.network.plaintext = false;
  EXPECT_TRUE(StartStatus(w).ok());
  w.disk->run.headers.emplace_back().set_version(1);
  EXPECT_EQ(StartStatus(w).code(), absl::StatusCode::kDataLoss);
}

// Would break: a run whose mode changes with the plan, or a config with too little to plan by that
// makes one all the same.
TEST(Coordinator, AutoIsResolvedOnceAndStays) {
  CoordinatorWorld w(4);
  w.config.mode.kind = "auto";
  w.config.mode.step_time = absl::Milliseconds(100);
  EXPECT_THAT(StartStatus(w).message(), HasSubstr("needs line_rate"));
  EXPECT_FALSE(w.disk->run.spec.has_value());
  w.config.mode.line_rate = 2500;
  EXPECT_THAT(StartStatus(w).message(), HasSubstr("no mode trains 95.0 % of the time"));
  w.config.mode.utilisation = 0.05;
  w.config.mode.line_rate = 1250000;
  ASSERT_TRUE(StartStatus(w).ok());
  const v1::RunSpec made = *w.disk->run.spec;
  w.config.mode.line_rate = 125000000;
  EXPECT_TRUE(StartStatus(w).ok());
  w.config.mode.line_rate = 0;
  EXPECT_TRUE(StartStatus(w).ok());
  EXPECT_EQ(w.disk->run.spec->SerializeAsString(), made.SerializeAsString());
}

// Would break: a branch that begins at another state than its config names, forgets its parent, or
// cannot be started again once its file is gone.
TEST(Coordinator, ABranchTakesItsLineageFromItsFile) {
  CoordinatorWorld w(1);
  SimProcess& process = w.world.AddProcess("branching");
  Files& files = process.env().files;
  TestRun run;
  {
    OwnedReplica parent = *CreateReplica(files, "/old", run);
    run.CommitTo(*parent, 3);
  }
  const auto start = [&] {
    return Coordinator(process.env(), w.config, std::make_unique<MemoryStore>(w.disk)).Start();
  };
  w.config.run.branch = "/branch";
  EXPECT_THAT(start().message(), HasSubstr("[run] branch: "));
  ASSERT_TRUE(WriteBranchFile(files, {"/old", 2, "/branch", false}).ok());
  w.config.run.id = "test-run";
  EXPECT_THAT(start().message(), HasSubstr("a branch is a run of its own"));
  w.config.run.id = "r1";
  ASSERT_TRUE(start().ok()) << start();
  const v1::Lineage parent = w.disk->run.spec->parent();
  EXPECT_EQ(parent.run_id(), "test-run");
  EXPECT_EQ(parent.version(), 2u);
  EXPECT_TRUE(parent.buffers());
  EXPECT_TRUE(start().ok()) << start();
  ASSERT_TRUE(files.Rename("/branch", "/elsewhere").ok());
  EXPECT_TRUE(start().ok()) << start();
  ASSERT_TRUE(WriteBranchFile(files, {"/old", 3, "/branch", false}).ok());
  EXPECT_THAT(start().message(), HasSubstr("parent.version: 2 -> 3"));
  w.config.run.branch = "";
  EXPECT_THAT(start().message(), HasSubstr("parent"));
}

// Would break: the first peer that answers begins a branch at a state of its own making.
TEST(Coordinator, AVersionZeroThatIsNotTheBranchsIsRefused) {
  CoordinatorWorld w(1);
  w.config.run.branch = "/branch";
  w.world.AddProcess("coordinator", [&w](Env env) {
    TestRun run;
    OwnedReplica parent = *CreateReplica(env.files, "/old", run);
    run.CommitTo(*parent, 3);
    CHECK_OK(WriteBranchFile(env.files, {"/old", 2, "/branch", false}).status());
    auto made = std::make_shared<Coordinator>(env, w.config, std::make_unique<MemoryStore>(w.disk));
    CHECK_OK(made->Start());
    return made;
  });
  w.AddPeer("a");  // makes version 0 of anything
  ASSERT_TRUE(w.world.RunUntil([&] { return !w.peer("a").closed.empty(); }, absl::Minutes(1)));
  EXPECT_TRUE(absl::IsInvalidArgument(w.peer("a").closed.front())) << w.peer("a").closed.front();
  EXPECT_THAT(w.peer("a").closed.front().message(), HasSubstr("initial state: "));
  EXPECT_EQ(w.world.LogCount("a version 0 is refused: "), 1u);
  EXPECT_FALSE(w.disk->run.genesis.has_value());
}

// ------------------------------------------------------------------------------------------------
// Would break: a history that anybody can forge, one that nobody can go on with although its key is
// there, or one that somebody goes on with who has not got the key.

SigningKey KeyOf(char byte) { return *SigningKey::FromSeed(std::string(32, byte)); }

TEST(HistoryKey, EveryHeaderAndTheSealAreSigned) {
  CoordinatorWorld w(2);
  w.AddCoordinator();
  for (const char* peer : {"a", "b"}) w.AddPeer(peer);
  ASSERT_TRUE(w.RunToVersion(2));
  w.world.Kill("coordinator");
  w.world.Restart("coordinator");
  ASSERT_TRUE(w.world.RunUntil([&] { return w.sealed; }, absl::Minutes(2))) << w.world.LogText();
  const StoredRun& run = w.disk->run;
  EXPECT_EQ(run.genesis->spec().history_key(), w.key.public_key());
  ASSERT_EQ(run.headers.size(), 5u);
  for (const v1::EntryHeader& header : run.headers) {
    EXPECT_EQ(header.signature().size(), kSignatureBytes);
    EXPECT_TRUE(CheckSigned(*run.spec, header).ok());
  }
  EXPECT_EQ(run.seal->signature().size(), kSignatureBytes);
  EXPECT_TRUE(CheckSigned(*run.spec, *run.seal).ok());
}

absl::Status Start(CoordinatorWorld& w, HistoryKeySource source) {
  static int processes = 0;
  SimProcess& process = w.world.AddProcess("starter" + std::to_string(++processes));
  Coordinator coordinator(process.env(), w.config, std::make_unique<MemoryStore>(w.disk), nullptr,
                          std::move(source));
  return coordinator.Start();
}

TEST(HistoryKey, NobodyGoesOnWithoutTheRunsKey) {
  CoordinatorWorld w(1);
  ASSERT_TRUE(Start(w, w.history_key).ok());
  ASSERT_TRUE(Start(w, w.history_key).ok());
  const absl::Status other = Start(w, [](bool) { return KeyOf('x'); });
  EXPECT_TRUE(absl::IsFailedPrecondition(other));
  EXPECT_THAT(std::string(other.message()), HasSubstr("put the run's own key back"));
  std::vector<bool> asked;
  const absl::Status lost = Start(w, [&](bool make) -> absl::StatusOr<SigningKey> {
    asked.push_back(make);
    return absl::FailedPreconditionError("its key is not at /dir");
  });
  EXPECT_EQ(asked, std::vector<bool>{false});  // a new one would be of no use
  EXPECT_THAT(std::string(lost.message()), HasSubstr("its key is not at /dir"));
  EXPECT_TRUE(absl::IsFailedPrecondition(Start(w, nullptr)));
  EXPECT_EQ(w.disk->run.epoch, 2u);  // whoever was refused has changed nothing
  EXPECT_TRUE(Start(w, w.history_key).ok());
}

TEST(HistoryKey, ARunThatBeganUnsignedStaysSo) {
  CoordinatorWorld w(1);
  ASSERT_TRUE(Start(w, nullptr).ok());
  EXPECT_TRUE(w.disk->run.spec->history_key().empty());
  ASSERT_TRUE(Start(w, w.history_key).ok());
  EXPECT_TRUE(w.disk->run.spec->history_key().empty());
}

TEST(HistoryKey, AStoreWithAForgedHeaderOrSealIsNotRead) {
  CoordinatorWorld w(1);
  w.AddCoordinator();
  w.AddPeer("a");
  ASSERT_TRUE(w.world.RunUntil([&] { return w.sealed; }, absl::Minutes(2)));
  w.world.Kill("coordinator");
  const StoredRun good = w.disk->run;
  w.disk->run.headers[2].set_signature(SignHeader(KeyOf('x'), good.headers[2]));
  const absl::Status header = Start(w, w.history_key);
  EXPECT_TRUE(absl::IsDataLoss(header));
  EXPECT_THAT(std::string(header.message()), HasSubstr("entry 3: its signature is not by"));
  w.disk->run = good;
  w.disk->run.seal->clear_signature();
  const absl::Status seal = Start(w, w.history_key);
  EXPECT_TRUE(absl::IsDataLoss(seal));
  EXPECT_THAT(std::string(seal.message()), HasSubstr("seal of version 5: it is not signed"));
  w.disk->run = good;
  EXPECT_TRUE(Start(w, w.history_key).ok());
}

// The peers' longest history is a lie: nobody is asked for it.
TEST(HistoryKey, ALostStoreAdoptsTheLongestSignedHistory) {
  CoordinatorWorld w(3, 2, 8);
  w.AddCoordinator();
  for (const char* peer : {"a", "b", "c"}) w.AddPeer(peer);
  ASSERT_TRUE(w.RunToVersion(3));
  const auto told = [&] {
    return w.peer("a").headers.size() >= 3 && w.peer("b").headers.size() >= 3;
  };
  ASSERT_TRUE(w.world.RunUntil(told, absl::Seconds(30)));
  w.world.Kill("coordinator");
  const std::vector<v1::EntryHeader> true_headers = w.disk->run.headers;
  w.peer("b").Forge(KeyOf('x'));
  w.peer("b").Forge(KeyOf('x'));
  w.disk->run = StoredRun();
  w.world.Restart("coordinator");
  ASSERT_TRUE(w.world.RunUntil([&] { return w.sealed; }, absl::Minutes(3))) << w.world.LogText();
  const StoredRun& run = w.disk->run;
  ASSERT_EQ(run.headers.size(), 8u);
  for (size_t i = 0; i < true_headers.size(); ++i) {
    EXPECT_EQ(HeaderDigest(run.headers[i]), HeaderDigest(true_headers[i])) << i;
  }
  for (const v1::EntryHeader& header : run.headers)
    EXPECT_TRUE(CheckSigned(*run.spec, header).ok());
  EXPECT_EQ(w.world.LogCount("peer b is asked"), 0u);
  EXPECT_GE(
      w.world.LogCount("a peer was refused: peer b: it does not show that it holds version 5"), 1u);
}

}  // namespace
}  // namespace atolld
