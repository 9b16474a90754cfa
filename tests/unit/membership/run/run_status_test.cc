// What a run tells of itself beside its rounds: shares, caps, clocks, its end, accounts, receipts.
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "membership/history/receipt.h"
#include "membership/run/utilisation.h"
#include "tests/unit/membership/run/simulated_peers.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

const absl::Time kWall = absl::FromUnixSeconds(1800000000);

v1::PeerStatus PeerOf(const v1::RunStatus& status, const std::string& peer) {
  for (const v1::PeerStatus& one : status.peers()) {
    if (one.member().peer() == peer) return one;
  }
  return v1::PeerStatus();
}

// Would break: an operator is told the wrong peer's weight, time or cap.
TEST(RunStatusOf, PeersAreShownWithWeightTimeAndCaps) {
  SimulatedPeers peers(2, 2, 9);
  for (const std::string name : {"a", "b"}) {
    v1::Hello hello = peers.MakeHello(name);
    if (name == "b") hello.set_up_rate(2500000);
    peers.Join(name, &hello);
    peers.WorkerReady(name);
  }
  peers.InitialState("a");
  for (const char* name : {"a", "b"}) peers.Synced(name, 0);
  for (const char* name : {"a", "b"}) peers.Evaluate(name);
  peers.now += absl::Seconds(8);
  peers.Ready("a");
  peers.now += absl::Seconds(12);
  peers.Ready("b");
  for (const char* name : {"a", "b"}) peers.Vote(name);
  ASSERT_EQ(peers.run->version(), 1u);
  v1::RunStatus status = peers.run->Status(peers.now);
  EXPECT_EQ(PeerOf(status, "a").mean_share(), 0.5);
  EXPECT_EQ(PeerOf(status, "a").ready_seconds(), 8);
  EXPECT_EQ(PeerOf(status, "b").ready_seconds(), 20);
  EXPECT_EQ(PeerOf(status, "a").up_cap_bytes_per_second(), 0);
  EXPECT_EQ(PeerOf(status, "b").up_cap_bytes_per_second(), 2500000);
  v1::PeerMessage caps;
  caps.mutable_line_caps()->set_down_rate(7000);
  peers.Say("b", caps);
  status = peers.run->Status(peers.now);
  EXPECT_EQ(PeerOf(status, "b").up_cap_bytes_per_second(), 0);
  EXPECT_EQ(PeerOf(status, "b").down_cap_bytes_per_second(), 7000);
}

// Would break: a run is told to be as busy as one of its peers, or a peer as busy as the run.
TEST(RunStatusOf, UtilisationIsOfEachPeerAndOfTheRound) {
  SimulatedPeers peers(2, 2, 9);
  for (const char* name : {"a", "b"}) {
    peers.Join(name);
    peers.WorkerReady(name);
  }
  peers.InitialState("a");
  for (const char* name : {"a", "b"}) peers.Synced(name, 0);
  for (const char* name : {"a", "b"}) peers.Evaluate(name);
  peers.train_seconds = {{"a", 9}, {"b", 3}};
  peers.waited_seconds = {{"a", 1}, {"b", 3}};
  for (const char* name : {"a", "b"}) peers.Ready(name);
  for (const char* name : {"a", "b"}) peers.Vote(name);
  ASSERT_EQ(peers.run->version(), 1u);
  const v1::RunStatus status = peers.run->Status(peers.now);
  EXPECT_EQ(TrainedShare(PeerOf(status, "a").utilisation()), 0.9);
  EXPECT_EQ(TrainedShare(PeerOf(status, "b").utilisation()), 0.5);
  EXPECT_EQ(TrainedShare(peers.run->rounds().back().utilisation()), 0.75);
}

// Would break: a peer whose clock is an hour off is not seen before its certificate is refused; or
// one is blamed for the time that has passed since its heartbeat.
TEST(RunStatusOf, AClockIsComparedWithTheOneAtItsHeartbeat) {
  SimulatedPeers peers(2, 2, 9);
  peers.Begin({"a", "b"});
  v1::PeerMessage beat;
  beat.mutable_heartbeat()->mutable_progress()->set_clock_seconds(
      absl::ToDoubleSeconds(kWall - absl::UnixEpoch()) - 120);
  peers.Say("b", beat);
  peers.now += absl::Seconds(3);
  const v1::RunStatus status = peers.run->Status(peers.now, kWall + absl::Seconds(3));
  EXPECT_EQ(status.unix_seconds(), 1800000003);
  EXPECT_NEAR(PeerOf(status, "b").clock_offset_seconds(), -120, 1e-3);
  EXPECT_EQ(PeerOf(status, "a").clock_offset_seconds(), 0);  // it has told nothing
  EXPECT_EQ(peers.run->Status(peers.now).unix_seconds(), 0);
}

// Would break: an end that is always in the past, or one of a run that waits or is paused.
TEST(RunStatusOf, TheEndFollowsThePaceOfTheRounds) {
  SimulatedPeers peers(2, 2, 20);
  peers.Begin({"a", "b"});
  EXPECT_EQ(peers.run->Status(peers.now, kWall).predicted_end_unix_seconds(), 0);
  for (int round = 0; round < 10; ++round) {
    for (const char* name : {"a", "b"}) peers.Ready(name);
    peers.now += absl::Seconds(10);
    for (const char* name : {"a", "b"}) peers.Vote(name);
  }
  ASSERT_EQ(peers.run->version(), 10u);
  EXPECT_NEAR(peers.run->Status(peers.now, kWall).predicted_end_unix_seconds(), 1800000100, 0.01);
  peers.now += absl::Seconds(4);
  EXPECT_NEAR(peers.run->Status(peers.now, kWall).predicted_end_unix_seconds(), 1800000096, 0.01);
  peers.now += absl::Seconds(400);  // a round that takes long: the others are still to come
  EXPECT_NEAR(peers.run->Status(peers.now, kWall).predicted_end_unix_seconds(), 1800000090, 0.01);
  ASSERT_TRUE(peers.Order(RunOrder::Verb::kPause).ok());
  EXPECT_EQ(peers.run->Status(peers.now, kWall).predicted_end_unix_seconds(), 0);
}

// Would break: a round in which nobody's loss is a number has a NaN for its training loss, which no
// JSON can hold, instead of none.
TEST(RunStatusOf, LossesThatAreNoNumbersAreLeftOut) {
  SimulatedPeers peers(3, 2, 9);
  peers.Begin({"a", "b", "c"});
  peers.losses = {{"a", NAN}, {"b", std::numeric_limits<double>::infinity()}, {"c", -NAN}};
  peers.Commit({"a", "b", "c"});
  EXPECT_EQ(peers.stored.rounds.back().train_loss(), 0);
  EXPECT_EQ(peers.stored.rounds.back().tokens(), 300u);
  peers.losses = {{"a", 3}, {"b", 4}, {"c", NAN}};
  peers.Commit({"a", "b", "c"});
  EXPECT_EQ(peers.stored.rounds.back().train_loss(), 3.5);
}

// Would break: a peer that trains on noise looks like any other.
TEST(RunStatusOf, BadDataIsCounted) {
  SimulatedPeers peers(3, 2, 9);
  peers.Begin({"a", "b", "c"});
  peers.losses["c"] = 9;
  peers.Commit({"a", "b", "c"});
  EXPECT_EQ(PeerOf(peers.run->Status(peers.now), "c").data_refused(), 1u);
  peers.losses["c"] = NAN;
  peers.Commit({"a", "b", "c"});
  EXPECT_EQ(PeerOf(peers.run->Status(peers.now), "c").data_refused(), 2u);
  EXPECT_EQ(peers.stored.rounds.back().train_loss(), 2.5);  // the mean of those that have one
  peers.losses["c"] = 3.4;                                  // other data, honestly
  peers.Commit({"a", "b", "c"});
  v1::PeerMessage lost;
  lost.mutable_worker_lost()->set_reason("update is not finite");
  lost.mutable_worker_lost()->set_bad_update(true);
  peers.Say("b", lost);
  const v1::RunStatus status = peers.run->Status(peers.now);
  EXPECT_EQ(PeerOf(status, "c").data_refused(), 2u);
  EXPECT_EQ(PeerOf(status, "b").data_refused(), 1u);
  EXPECT_EQ(PeerOf(status, "a").data_refused(), 0u);
}

// Would break: who has left, or came before a restart, has given nothing.
TEST(RunAccounts, CountAllThatEverContributedOverARestart) {
  SimulatedPeers peers(3, 2, 9);
  peers.Begin({"a", "b", "c"});
  peers.Commit({"a", "b", "c"});
  peers.Leave("c");
  peers.Commit({"a", "b"});
  for (const bool restarted : {false, true}) {
    if (restarted) peers.Restart();
    v1::ListAccountsRequest request;
    request.set_limit(2);
    v1::ListAccountsResponse page = peers.run->ledger().Accounts(request);
    EXPECT_EQ(page.version(), 2u);
    ASSERT_EQ(page.accounts_size(), 2);
    EXPECT_EQ(page.accounts(0).peer(), "a");
    EXPECT_EQ(page.accounts(0).tokens(), 200u);
    EXPECT_NEAR(page.accounts(0).share(), (1.0 / 3 + 1.0 / 2) / 2, 1e-12);
    EXPECT_EQ(page.next(), "b");
    request.set_after(page.next());
    page = peers.run->ledger().Accounts(request);
    ASSERT_EQ(page.accounts_size(), 1);
    EXPECT_EQ(page.accounts(0).peer(), "c");
    EXPECT_EQ(page.accounts(0).rounds(), 1u);
    EXPECT_EQ(page.accounts(0).last_version(), 1u);
    EXPECT_EQ(page.next(), "");
  }
}

// Would break: a receipt that says something else than the ledger, or one that nobody has signed.
TEST(RunAccounts, AReceiptIsSignedAndAnUnsignedRunHasNone) {
  SimulatedPeers peers(2, 2, 9);
  peers.Begin({"a", "b"});
  peers.Commit({"a", "b"});
  absl::StatusOr<v1::Receipt> receipt = peers.run->ledger().IssueReceipt("a", kWall);
  EXPECT_EQ(receipt.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(receipt.status().message(), HasSubstr("run r1 is unsigned"));

  const SigningKey key = *SigningKey::FromSeed(std::string(32, 'k'));
  peers.stored.spec->set_history_key(key.public_key());
  RunSettings settings = peers.settings;
  settings.sign_receipt = [&](const v1::Receipt& made) { return SignReceipt(key, made); };
  const atolld::Run signed_run(settings, peers.stored, peers.now);
  receipt = signed_run.ledger().IssueReceipt("aa", kWall);
  EXPECT_EQ(receipt.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(receipt.status().message(), HasSubstr("did you mean \"a\"?"));
  receipt = signed_run.ledger().IssueReceipt("a", kWall);
  ASSERT_TRUE(receipt.ok()) << receipt.status();
  EXPECT_EQ(CheckReceipt(*receipt, key.public_key()), absl::OkStatus());
  EXPECT_EQ(receipt->account().tokens(), 100u);
  EXPECT_EQ(receipt->version(), 1u);
  EXPECT_EQ(receipt->header_digest(), signed_run.ledger().digest());
  EXPECT_EQ(receipt->issued_unix_seconds(), 1800000000);
}

}  // namespace
}  // namespace atolld
