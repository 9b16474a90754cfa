#include "daemon/coordinator/coordinator.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/daemon/coordinator/coordinator_world.h"

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

}  // namespace
}  // namespace atolld
