#include "daemon/cli/local/start_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/daemon/figures/run_statuses.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

v1::RunStatus Failing(uint32_t first, uint32_t second) {
  v1::RunStatus status = StatusAt(1, 0, 0);
  status.clear_parameters();
  uint32_t failures = first;
  for (const char* id : {"peer-1", "peer-2"}) {
    v1::PeerStatus* const peer = AddPeer(&status, id, 0, 0, 0);
    peer->set_worker_failures(failures);
    peer->set_why("its worker does not train: text.txt is empty");
    failures = second;
  }
  return status;
}

TEST(StartWatchTest, EndsWhatNoWorkerCanBegin) {
  // Broken: `atoll local` would wait for ever on an empty text.
  RunHistory history;
  StartWatch watch(1);
  history.Take(Failing(3, 5), 0);
  EXPECT_FALSE(watch.Hopeless(history, 2, 100).has_value());  // it has just become so
  EXPECT_FALSE(watch.Hopeless(history, 2, 119.9).has_value());
  const auto why = watch.Hopeless(history, 2, 120);
  ASSERT_TRUE(why.has_value());
  EXPECT_EQ(*why, "for 20 s no worker of this run has started: text.txt is empty");
}

TEST(StartWatchTest, WhileOneMayStartTheRunGoesOn) {
  // Broken: a run would end because one of its workers starts slowly, or was just mended.
  RunHistory history;
  StartWatch watch(1);
  history.Take(Failing(3, 2), 0);
  EXPECT_FALSE(watch.Hopeless(history, 2, 0).has_value());
  EXPECT_FALSE(watch.Hopeless(history, 2, 1000).has_value());
  history.Take(Failing(3, 3), 0);
  EXPECT_FALSE(watch.Hopeless(history, 3, 1000).has_value());  // one is not there yet
  EXPECT_FALSE(watch.Hopeless(history, 2, 1000).has_value());
  history.Take(Failing(0, 3), 0);  // mended
  EXPECT_FALSE(watch.Hopeless(history, 2, 1019).has_value());
  history.Take(Failing(3, 3), 0);
  EXPECT_FALSE(watch.Hopeless(history, 2, 1021).has_value());
}

TEST(StartWatchTest, AlsoEndsWhatFailsInTraining) {
  // Broken: a run whose loss is NaN at its first step starts its workers again for ever.
  RunHistory history;
  v1::RunStatus status = Failing(9, 9);
  status.set_parameters(1000);
  history.Take(status, 0);
  StartWatch watch(1);
  EXPECT_FALSE(watch.Hopeless(history, 2, 0).has_value());
  // Started again, and perhaps mended: it is not ended while it trains.
  status.mutable_peers(0)->clear_why();
  history.Take(status, 0);
  EXPECT_FALSE(watch.Hopeless(history, 2, 500).has_value());
  *status.mutable_peers(0) = status.peers(1);
  status.mutable_peers(0)->mutable_member()->set_peer("peer-1");
  history.Take(status, 0);
  const auto why = watch.Hopeless(history, 2, 501);
  ASSERT_TRUE(why.has_value());
  EXPECT_EQ(*why, "for 20 s no worker of this run has trained: text.txt is empty");
}

TEST(StartWatchTest, DifferentReasonsAreAllNamed) {
  // Broken: one would be mended and the other not known.
  RunHistory history;
  v1::RunStatus status = Failing(3, 3);
  status.mutable_peers(1)->set_why("its worker does not train: no CUDA device");
  history.Take(status, 0);
  StartWatch watch(1);
  watch.Hopeless(history, 2, 0);
  const auto why = watch.Hopeless(history, 2, 20);
  ASSERT_TRUE(why.has_value());
  EXPECT_THAT(*why, HasSubstr("peer-1: text.txt is empty"));
  EXPECT_THAT(*why, HasSubstr("peer-2: no CUDA device"));
}

TEST(StartWatchTest, EndsWhatTooFewCanGoOnWith) {
  // Broken: one of two peers that fails at every step would keep an experiment from its next run.
  RunHistory history;
  history.Take(Failing(0, 3), 0);
  StartWatch watch(2);
  EXPECT_FALSE(watch.Hopeless(history, 3, 0).has_value()) << "two are left";
  EXPECT_FALSE(watch.Hopeless(history, 2, 1).has_value());
  const auto why = watch.Hopeless(history, 2, 21);
  ASSERT_TRUE(why.has_value());
  EXPECT_EQ(
      *why,
      "for 20 s only 1 of 2 peers could train, and a round needs 2: peer-2: text.txt is empty");
}

TEST(StartWatchTest, OneThatIsAwayForGoodWillNeverTrain) {
  // Broken: a trace that never brings a peer back would be waited for, for ever.
  RunHistory history;
  v1::RunStatus status = Failing(0, 0);
  for (v1::PeerStatus& peer : *status.mutable_peers()) peer.set_why("away by its trace for good");
  history.Take(status, 0);
  StartWatch watch(2);
  watch.Hopeless(history, 2, 0);
  const auto why = watch.Hopeless(history, 2, 20);
  ASSERT_TRUE(why.has_value());
  EXPECT_EQ(*why, "for 20 s no worker of this run has started: away by its trace for good");
  for (v1::PeerStatus& peer : *status.mutable_peers())
    peer.set_why("away by its trace until 18:00");
  history.Take(status, 20);
  EXPECT_FALSE(watch.Hopeless(history, 2, 100).has_value());
}

}  // namespace
}  // namespace atolld
