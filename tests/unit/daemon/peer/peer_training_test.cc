#include "daemon/peer/peer_training.h"

#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace atolld {
namespace {

using State = PeerTraining::State;

class KeptLines final : public Log {
 public:
  void Write(Level, absl::string_view line) override { lines.emplace_back(line); }
  std::vector<std::string> lines;
};

v1::Train TrainOf(uint64_t version) {
  v1::Train train;
  train.set_version(version);
  return train;
}

v1::Boundary BoundaryOf(uint64_t version) {
  v1::Boundary boundary;
  boundary.set_version(version);
  return boundary;
}

// Would break: an answer that comes late, or twice, would be taken for one that is awaited.
TEST(PeerTraining, AnEventThatTheTableDoesNotListChangesNothing) {
  KeptLines log;
  PeerTraining training(log);
  EXPECT_FALSE(training.Begin(absl::UnixEpoch()));
  EXPECT_FALSE(training.Offer());
  ASSERT_TRUE(training.Give(TrainOf(4)));
  EXPECT_FALSE(training.Give(TrainOf(5))) << "Drop comes first";
  EXPECT_EQ(training.train().version(), 4u);
  EXPECT_FALSE(training.Finish(BoundaryOf(4)));
  EXPECT_FALSE(training.LoseWorker());
  ASSERT_TRUE(training.Begin(absl::UnixEpoch()));
  EXPECT_FALSE(training.Finish(BoundaryOf(3))) << "a replaced training's";
  EXPECT_FALSE(training.Encode().has_value());
  ASSERT_TRUE(training.Finish(BoundaryOf(4)));
  EXPECT_FALSE(training.Finish(BoundaryOf(4)));
  ASSERT_TRUE(training.Encode().has_value());
  EXPECT_FALSE(training.Encode().has_value());
  EXPECT_TRUE(training.has_worker());
  ASSERT_TRUE(training.LoseWorker());
  EXPECT_FALSE(training.has_worker());
  EXPECT_FALSE(training.Begin(absl::UnixEpoch())) << "the worker has handed its update over";
  ASSERT_TRUE(training.Offer());
  EXPECT_EQ(training.state(), State::kNone);
  EXPECT_EQ(log.lines.size(), 6u);
  EXPECT_EQ(log.lines.back(), "training 4: handed over, offer -> none");
}

// Would break: an update would be told as older or younger than it is.
TEST(PeerTraining, CountsTheEntriesThatPassWhileItRuns) {
  KeptLines log;
  PeerTraining training(log);
  training.Give(TrainOf(1));
  training.Begin(absl::UnixEpoch());
  training.NoteEntries(2);
  training.SetMissed(true);
  EXPECT_EQ(training.age(), 2u);
  ASSERT_TRUE(training.LoseWorker());
  ASSERT_TRUE(training.Begin(absl::UnixEpoch()));
  EXPECT_EQ(training.age(), 0u) << "it began anew";
  EXPECT_FALSE(training.missed());
  training.Finish(BoundaryOf(1));
  training.NoteEntries(1);
  training.Encode();
  EXPECT_EQ(training.age(), 1u);
  const uint64_t id = training.id();
  training.Drop();
  EXPECT_EQ(training.age(), 0u);
  EXPECT_NE(training.id(), id) << "its update is told apart from the next one";
}

// Would break: two guesses would be under way, and the worker would read the slot that the second
// one writes.
TEST(PeerTraining, AGuessThatIsGivenUpIsNotAwaited) {
  KeptLines log;
  PeerTraining training(log);
  training.Give(TrainOf(1));
  training.Guess();
  const uint64_t id = training.id();
  ASSERT_TRUE(training.LoseWorker());
  EXPECT_NE(training.id(), id);
}

// Would break: docs/architecture.md would tell of a machine that is not the code's.
TEST(PeerTraining, ThePageHasTheTable) {
  std::ifstream page(ATOLL_ARCHITECTURE_PAGE);
  std::vector<std::string> told;
  bool within = false;
  for (std::string line; std::getline(page, line);) {
    if (absl::StartsWith(line, "#")) within = absl::EndsWith(line, "The machine of a training");
    if (within && absl::StartsWith(line, "| `")) told.push_back(line.substr(0, line.rfind(" | ")));
  }
  std::vector<std::string> is;
  for (const PeerTraining::Transition& one : PeerTraining::Transitions()) {
    is.push_back(absl::StrCat("| `", PeerTraining::NameOf(one.from), "` | ",
                              PeerTraining::NameOf(one.event), " | `", PeerTraining::NameOf(one.to),
                              "`"));
  }
  EXPECT_EQ(told, is) << "in " << ATOLL_ARCHITECTURE_PAGE;
}

}  // namespace
}  // namespace atolld
