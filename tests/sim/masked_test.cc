// Whole runs with masked updates in a simulated world, with deaths between all their steps.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "daemon/env/env.h"
#include "tests/sim/sealed.h"
#include "tests/sim/sim_cluster.h"

namespace atolld {
namespace {

using Word = v1::MaskFromParty::MessageCase;

// A run of eight peers, and what each of them has said about masks.
class MaskedRun {
 public:
  MaskedRun(uint64_t seed, SimClusterSettings settings)
      : cluster_(seed, std::move(settings), [this](const std::string& peer, const Frame& frame) {
          v1::PeerMessage message;
          if (Unpack(frame, &message).ok() && message.has_mask()) {
            said_[peer].insert(message.mask().message_case());
          }
        }) {}

  SimCluster& cluster() { return cluster_; }

  // Kills it as soon as it has said this once more.
  bool KillAfter(const std::string& peer, Word word) {
    said_[peer].clear();
    if (!cluster_.world().RunUntil([&] { return said_[peer].count(word) > 0; }, absl::Minutes(1))) {
      return false;
    }
    cluster_.world().Kill(peer);
    return true;
  }

  std::string Story() { return cluster_.world().LogText(); }

 private:
  std::map<std::string, std::set<Word>> said_;
  SimCluster cluster_;
};

SimClusterSettings EightWithMasks() {
  SimClusterSettings settings;
  settings.peers = 8;
  settings.quorum = 4;
  settings.masked = true;
  settings.rounds = 8;
  return settings;
}

// If this failed, healthy peers could not finish a run with masks, or it would not train.
TEST(SimMaskedTest, HealthyRunSealsWithEqualReplicas) {
  SimCluster cluster(1, EightWithMasks());
  ASSERT_TRUE(cluster.RunToSeal()) << cluster.world().LogText();
  ExpectSealedEqual(cluster, 8, 8);
  for (const v1::EntryHeader& header : cluster.stored().headers) {
    EXPECT_EQ(header.contributors_size(), 8);
  }
  EXPECT_EQ(cluster.world().LogCount("masks are discarded"), 0u);
  EXPECT_EQ(cluster.world().LogCount(" E "), 0u);
}

// If this failed, two deaths at some steps of an attempt would cost the round, or leave the masks
// of the dead in the sum.
TEST(SimMaskedTest, TwoDeathsAtAnyStepsAreSurvived) {
  const std::vector<Word> words = {Word::kKeys, Word::kShares, Word::kMasked, Word::kSum,
                                   Word::kAgreed};
  uint64_t seed = 10;
  for (size_t first = 0; first < words.size(); ++first) {
    for (size_t second = first; second < words.size(); ++second) {
      SCOPED_TRACE(testing::Message() << "words " << first << " and " << second);
      MaskedRun run(++seed, EightWithMasks());
      SimCluster& cluster = run.cluster();
      ASSERT_TRUE(cluster.RunToVersion(2)) << run.Story();
      ASSERT_TRUE(run.KillAfter("p2", words[first])) << run.Story();
      ASSERT_TRUE(run.KillAfter("p5", words[second])) << run.Story();
      ASSERT_TRUE(cluster.RunToVersion(cluster.version() + 1, absl::Minutes(2))) << run.Story();
      EXPECT_GE(cluster.stored().headers.back().contributors_size(), 6);
      cluster.world().Restart("p2");
      cluster.world().Restart("p5");
      ASSERT_TRUE(cluster.RunToSeal()) << run.Story();
      ExpectSealedEqual(cluster, 8, 8);
    }
  }
}

// If this failed, a sum of fewer than the run's threshold would be unmasked, or the run would hang
// when the others are back.
TEST(SimMaskedTest, BelowTheThresholdItWaitsAndGoesOn) {
  SimClusterSettings settings = EightWithMasks();
  settings.mask_threshold = 6;
  MaskedRun run(100, settings);
  SimCluster& cluster = run.cluster();
  ASSERT_TRUE(cluster.RunToVersion(2)) << run.Story();
  ASSERT_TRUE(run.KillAfter("p2", Word::kMasked)) << run.Story();
  for (const char* const peer : {"p5", "p7"}) cluster.world().Kill(peer);
  const uint64_t version = cluster.version();
  cluster.world().RunFor(absl::Minutes(1));
  EXPECT_EQ(cluster.version(), version);
  EXPECT_GE(cluster.world().LogCount("masks are discarded"), 1u) << run.Story();
  EXPECT_GE(cluster.world().LogCount("a masked sum has at least 6"), 1u) << run.Story();
  for (const char* const peer : {"p2", "p5", "p7"}) cluster.world().Restart(peer);
  ASSERT_TRUE(cluster.RunToSeal()) << run.Story();
  ExpectSealedEqual(cluster, 8, 8);
}

// If this failed, a coordinator that dies in the middle of an attempt would have secrets revealed
// twice, or lose the round.
TEST(SimMaskedTest, TheCoordinatorDiesBetweenSteps) {
  uint64_t seed = 200;
  for (const Word word :
       {Word::kKeys, Word::kShares, Word::kMasked, Word::kSum, Word::kAgreed, Word::kOpened}) {
    MaskedRun run(++seed, EightWithMasks());
    SimCluster& cluster = run.cluster();
    ASSERT_TRUE(cluster.RunToVersion(2)) << run.Story();
    ASSERT_TRUE(run.KillAfter("p2", word)) << run.Story();
    cluster.world().Kill(kCoordinator);
    cluster.world().RunFor(absl::Milliseconds(500));
    cluster.world().Restart(kCoordinator);
    cluster.world().Restart("p2");
    ASSERT_TRUE(cluster.RunToSeal()) << "word " << word << "\n" << run.Story();
    ExpectSealedEqual(cluster, 8, 8);
  }
}

}  // namespace
}  // namespace atolld
