// Whole runs with overlapping rounds in a simulated world, with deaths while an entry is made and
// the next is trained for.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "daemon/env/env.h"
#include "tests/sim/sealed.h"
#include "tests/sim/sim_cluster.h"

namespace atolld {
namespace {

// Three peers, and how many times each was told to train ahead, and to train anew.
class OverlappingRun {
 public:
  OverlappingRun(uint64_t seed, SimClusterSettings settings)
      : cluster_(seed, std::move(settings), nullptr, [this](const Frame& frame) {
          v1::CoordinatorMessage message;
          if (!Unpack(frame, &message).ok() || !message.has_train()) return;
          ++(message.train().ahead() ? ahead_ : anew_);
        }) {}

  SimCluster& cluster() { return cluster_; }
  int ahead() const { return ahead_; }
  int anew() const { return anew_; }
  std::string Story() { return cluster_.world().LogText(); }

  // Until an exchange is under way beside which somebody trains ahead, and a while longer.
  bool RunIntoRound(uint64_t version, absl::Duration after) {
    if (!cluster_.RunToVersion(version)) return false;
    const int before = ahead_;
    if (!cluster_.world().RunUntil([&] { return ahead_ > before; }, absl::Minutes(1))) return false;
    cluster_.world().RunFor(after);
    return true;
  }

 private:
  int ahead_ = 0, anew_ = 0;
  SimCluster cluster_;
};

SimClusterSettings InMode(const std::string& mode, uint64_t rounds = 10) {
  SimClusterSettings settings;
  settings.mode = mode;
  settings.rounds = rounds;
  settings.overlap = 3;
  settings.error_feedback = true;
  return settings;
}

// If this failed, a run with overlapping rounds would not end, or peers would wait in it.
TEST(SimPipelineTest, HealthyRunsSealWithEqualReplicasAndNobodyWaits) {
  for (const char* mode : {"delayed", "eager", "streaming"}) {
    OverlappingRun run(1, InMode(mode));
    ASSERT_TRUE(run.cluster().RunToSeal()) << mode << run.Story();
    ExpectSealedEqual(run.cluster(), 3, 10);
    EXPECT_EQ(run.anew(), 3) << mode << ": the first round's alone";
    EXPECT_EQ(run.ahead(), 27) << mode;
    for (const v1::EntryHeader& header : run.cluster().stored().headers) {
      EXPECT_EQ(header.contributors_size(), 3) << mode;
      const bool missed = std::string(mode) == "eager" && header.version() > 1;
      EXPECT_EQ(header.base_version(), header.version() - (missed ? 2 : 1)) << mode;
    }
  }
}

// If this failed, a peer that dies while it holds an update and a training would stop the run, or
// its samples would be lost.
TEST(SimPipelineTest, APeerDiesWithBothAndComesBack) {
  for (const char* mode : {"delayed", "eager", "streaming"}) {
    for (const int milliseconds : {0, 5, 20, 100}) {
      OverlappingRun run(2, InMode(mode, 20));
      SimWorld& world = run.cluster().world();
      ASSERT_TRUE(run.RunIntoRound(3, absl::Milliseconds(milliseconds))) << run.Story();
      world.Kill("p2");
      world.RunFor(absl::Milliseconds(1500));
      world.Restart("p2");
      ASSERT_TRUE(run.cluster().RunToSeal()) << mode << milliseconds << run.Story();
      ExpectSealedEqual(run.cluster(), 3, 20);
    }
  }
}

// If this failed, a restart of the coordinator while peers hold both would stop the run.
TEST(SimPipelineTest, TheCoordinatorDiesWhilePeersHoldBoth) {
  for (const char* mode : {"delayed", "eager", "streaming"}) {
    for (const int milliseconds : {0, 5, 20, 100}) {
      OverlappingRun run(3, InMode(mode));
      SimWorld& world = run.cluster().world();
      ASSERT_TRUE(run.RunIntoRound(3, absl::Milliseconds(milliseconds))) << run.Story();
      world.Kill("coordinator");
      world.RunFor(absl::Milliseconds(700));
      world.Restart("coordinator");
      ASSERT_TRUE(run.cluster().RunToSeal()) << mode << milliseconds << run.Story();
      ExpectSealedEqual(run.cluster(), 3, 10);
    }
  }
}

// If this failed, a worker that dies while it trains ahead would also lose the update that was
// already offered.
TEST(SimPipelineTest, AWorkerDiesWhileItTrainsAhead) {
  for (const char* mode : {"delayed", "eager", "streaming"}) {
    OverlappingRun run(4, InMode(mode));
    ASSERT_TRUE(run.RunIntoRound(3, absl::Milliseconds(1))) << run.Story();
    run.cluster().KillWorker("p2", absl::Milliseconds(300));
    ASSERT_TRUE(run.cluster().RunToSeal()) << mode << run.Story();
    ExpectSealedEqual(run.cluster(), 3, 10);
  }
}

// If this failed, a peer that is slower than the others allow would be left out once and then wait
// for ever if its update is dropped, or hold two trainings.
TEST(SimPipelineTest, ASlowPeerContributesNowAndThen) {
  for (const char* mode : {"delayed", "eager", "streaming"}) {
    SimClusterSettings settings = InMode(mode, 16);
    settings.steps["p3"] = absl::Milliseconds(250);
    OverlappingRun run(5, settings);
    ASSERT_TRUE(run.cluster().RunToSeal(absl::Minutes(5))) << mode << run.Story();
    ExpectSealedEqual(run.cluster(), 3, 16);
  }
}

// If this failed, a peer that fell behind by several entries would never take part again.
TEST(SimPipelineTest, APeerThatWasCutOffCatchesUp) {
  for (const char* mode : {"delayed", "eager", "streaming"}) {
    OverlappingRun run(6, InMode(mode, 40));
    SimWorld& world = run.cluster().world();
    ASSERT_TRUE(run.RunIntoRound(3, absl::Milliseconds(1))) << run.Story();
    for (const char* other : {"coordinator", "p1", "p2"}) world.CutLink("p3", other);
    ASSERT_TRUE(run.cluster().RunToVersion(9)) << run.Story();
    for (const char* other : {"coordinator", "p1", "p2"}) world.HealLink("p3", other);
    ASSERT_TRUE(run.cluster().RunToSeal()) << mode << run.Story();
    ExpectSealedEqual(run.cluster(), 3, 40);
    int with = 0;
    for (const v1::EntryHeader& header : run.cluster().stored().headers) {
      for (const v1::Contributor& one : header.contributors()) {
        with += header.version() > 9 && one.peer() == "p3" ? 1 : 0;
      }
    }
    EXPECT_GE(with, 5) << mode;
  }
}

}  // namespace
}  // namespace atolld
