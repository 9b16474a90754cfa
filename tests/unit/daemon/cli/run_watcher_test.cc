#include "daemon/cli/run_watcher.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <string>
#include <thread>

#include "compression/base/check.h"
#include "tests/unit/daemon/figures/run_statuses.h"

namespace atolld {
namespace {

// Broken: SIGTERM does not end a verb whose output nobody reads, or a slow reader misses lines.
TEST(SignalWaiterTest, WritesUntilASignalComes) {
  EXPECT_EXIT(
      {
        int ends[2];
        CHECK(pipe2(ends, O_CLOEXEC) == 0);
        fcntl(ends[1], F_SETPIPE_SZ, 4096);
        SignalWaiter signals;
        Waker waker;
        const std::string text(100000, 'x');
        size_t got = 0;
        std::thread reader([&, from = ends[0]] {
          char bytes[1000];
          while (got < text.size()) got += static_cast<size_t>(read(from, bytes, sizeof bytes));
        });
        const bool whole = signals.Write(ends[1], text);
        reader.join();
        std::thread sender([] {
          poll(nullptr, 0, 200);
          kill(getpid(), SIGTERM);
        });
        const bool cut = !signals.Write(ends[1], text);
        sender.join();
        _exit(whole && got == text.size() && cut && signals.Wait(waker, absl::Seconds(5)) ? 7 : 1);
      },
      ::testing::ExitedWithCode(7), "");
}

TEST(AbsenceRuleTest, SaysSinceWhenAndGivesUp) {
  // Broken: `run watch` would count on, or wait for ever, when nobody answers.
  const absl::Time wall =
      absl::FromCivil(absl::CivilSecond(2025, 1, 31, 14, 25, 1), absl::LocalTimeZone());
  AbsenceRule rule("lab:7070", 1000, wall);
  EXPECT_EQ(rule.Take(false, 1010, wall + absl::Seconds(10)), "");
  EXPECT_TRUE(rule.GiveUp(9999).ok());
  EXPECT_EQ(rule.Take(true, 1011, wall + absl::Seconds(11)),
            "the coordinator at lab:7070 has not answered since 14:25:11; it is waited for up to "
            "120 s");
  EXPECT_EQ(rule.last_answer_seconds(), 1010);
  // A wall clock that jumps ends nothing.
  EXPECT_EQ(rule.Take(true, 1100, wall + absl::Hours(5)), "");
  EXPECT_TRUE(rule.GiveUp(1100).ok());
  EXPECT_EQ(rule.Take(false, 1101, wall), "the coordinator at lab:7070 answers again");
  EXPECT_NE(rule.Take(true, 1102, wall), "");
  EXPECT_TRUE(rule.GiveUp(1220.9).ok());
  const absl::Status away = rule.GiveUp(1221);
  EXPECT_TRUE(absl::IsUnavailable(away));
  EXPECT_THAT(std::string(away.message()),
              testing::HasSubstr("has not answered for 120 s, since 14:25:01; the run was not"));
}

TEST(RunHistoryTest, KeepsOneTimelineOverRestartsOfTheCoordinator) {
  // Broken: a coordinator that was killed and started again would make the run look minutes long
  // instead of hours.
  RunHistory history;
  v1::RunStatus status = StatusAt(1, 2, 20);
  AddRound(&status, 1, 9, 3.0);
  AddRound(&status, 2, 19, 2.5);
  history.Take(status, 1020);
  EXPECT_EQ(history.wall_seconds(), 19);
  EXPECT_EQ(history.elapsed_seconds(1025), 25);

  // 30 s after the first Train a new epoch begins to train; it knows the old rounds, but not when
  // they were.
  v1::RunStatus later = StatusAt(2, 3, 12);
  AddRound(&later, 1, 0, 3.0);
  AddRound(&later, 2, 0, 2.5);
  AddRound(&later, 3, 11, 2.0);
  history.Take(later, 1042);
  EXPECT_EQ(history.rounds().at(2).elapsed_seconds(), 19);
  EXPECT_EQ(history.rounds().at(3).elapsed_seconds(), 41);
  EXPECT_EQ(history.wall_seconds(), 41);
}

TEST(RunHistoryTest, CountersGoOnOverRestartsOfAPeer) {
  // Broken: a peer that was killed would take what it had sent and trained out of the report.
  RunHistory history;
  v1::RunStatus status = StatusAt(1, 4, 40);
  AddRound(&status, 4, 40, 2.0);
  AddPeer(&status, "peer-1", 4000, 36, 4);
  history.Take(status, 1040);
  EXPECT_EQ(history.bytes_sent_per_peer_per_round(), 1000);
  EXPECT_DOUBLE_EQ(*history.compute_utilization(), 0.9);

  v1::RunStatus again = StatusAt(1, 6, 60);
  AddRound(&again, 6, 60, 1.8);
  AddPeer(&again, "peer-1", 2000, 18, 6);
  history.Take(again, 1060);
  EXPECT_EQ(history.peers().at("peer-1").bytes_sent, 6000u);
  EXPECT_EQ(history.bytes_sent_per_peer_per_round(), 1000);
  EXPECT_DOUBLE_EQ(*history.compute_utilization(), 0.9);
}

TEST(RunHistoryTest, AWatcherThatComesLateCountsTheWholeRun) {
  // Broken: a run that was stopped and continued would report what it sent since, over the rounds
  // of all of it.
  RunHistory history;
  EXPECT_EQ(history.bytes_sent_per_peer_per_round(), std::nullopt);
  v1::RunStatus status = StatusAt(2, 40, 400);
  AddPeer(&status, "peer-1", 40000, 300, 40);
  status.add_peers()->mutable_member()->set_peer("peer-2");  // has not been heard of since
  status.mutable_peers(1)->set_rounds_contributed(30);
  history.Take(status, 1400);
  EXPECT_EQ(history.bytes_sent_per_peer_per_round(), 1000);
  v1::RunStatus crashed = StatusAt(2, 40, 402);
  AddPeer(&crashed, "peer-1", 39500, 299, 40);
  history.Take(crashed, 1402);
  EXPECT_EQ(history.bytes_sent_per_peer_per_round(), 1000) << "what it had told was sent";
}

TEST(RunHistoryTest, UtilizationCountsRoundsThatHeartbeatsMissed) {
  // Broken: a run of a few seconds, with hardly a heartbeat, would look idle.
  RunHistory history;
  v1::RunStatus status = StatusAt(1, 1, 10);
  AddRound(&status, 1, 10, 2.0);
  status.mutable_rounds(0)->set_train_seconds(8);
  AddPeer(&status, "peer-1", 0, 0, 1);
  AddPeer(&status, "peer-2", 0, 0, 1);
  history.Take(status, 1010);
  EXPECT_DOUBLE_EQ(*history.compute_utilization(), 0.8);
}

TEST(RunHistoryTest, TheLeastBusyPeerIsThatOfTheWholeRun) {
  // Broken: one round in which a busy peer waited, or one told of twice, would count as its run.
  RunHistory history;
  const auto tell = [&](uint64_t version, double first, double second) {
    v1::RunStatus status = StatusAt(1, version, 10.0 * static_cast<double>(version));
    for (const auto& [id, trained] :
         {std::make_pair("peer-1", first), std::make_pair("peer-2", second)}) {
      v1::PeerStatus* peer = AddPeer(&status, id, 0, 0, version);
      if (version == 1) continue;  // has no time before it
      peer->mutable_utilisation()->set_train_seconds(trained);
      peer->mutable_utilisation()->set_waited_seconds(10 - trained);
    }
    history.Take(status, 1000);
  };
  tell(1, 0, 0);
  EXPECT_EQ(history.least_busy(), std::nullopt);
  tell(2, 1, 6);
  tell(2, 1, 6);
  EXPECT_DOUBLE_EQ(*history.least_busy(), 0.1);
  tell(3, 9, 2);
  EXPECT_DOUBLE_EQ(*history.least_busy(), 0.4);
}

TEST(RunHistoryTest, WhatIsKnownStaysKnown) {
  // Broken: a coordinator that has just started, and knows less, would unseal a run or empty the
  // report.
  RunHistory history;
  v1::RunStatus status = StatusAt(1, 10, 100);
  status.set_tokens(5000);
  status.mutable_seal()->set_version(10);
  v1::PeerStatus* peer = AddPeer(&status, "peer-1", 10, 1, 10);
  peer->set_state_version(10);
  peer->set_state_digest("digest");
  history.Take(status, 1100);
  ASSERT_TRUE(history.sealed());

  v1::RunStatus empty;
  empty.set_epoch(2);
  empty.add_peers()->mutable_member()->set_peer("peer-1");
  history.Take(empty, 1101);
  EXPECT_TRUE(history.sealed());
  EXPECT_EQ(history.newest().version(), 10u);
  EXPECT_EQ(history.newest().tokens(), 5000u);
  EXPECT_EQ(history.newest().spec().run_id(), "test-run");
  EXPECT_EQ(history.peers().at("peer-1").newest.state_version(), 10u);
  EXPECT_EQ(history.peers().at("peer-1").newest.state_digest(), "digest");
  EXPECT_EQ(history.peers().at("peer-1").newest.rounds_contributed(), 10u);
}

TEST(RunHistoryTest, TimeLeftFollowsTheLastRounds) {
  // Broken: the live view would promise an end that never comes.
  RunHistory history;
  EXPECT_LT(history.seconds_left(), 0);
  v1::RunStatus status = StatusAt(1, 4, 40);
  for (uint64_t version = 1; version <= 4; ++version) {
    AddRound(&status, version, 10.0 * static_cast<double>(version), 2.0);
  }
  history.Take(status, 1040);
  EXPECT_DOUBLE_EQ(history.seconds_left(), 60);  // 6 rounds of 10 s
}

}  // namespace
}  // namespace atolld
