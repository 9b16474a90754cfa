#include "daemon/experiment/experiment_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "daemon/env/posix_files.h"
#include "daemon/experiment/experiment_file.h"
#include "daemon/experiment/local_launcher.h"
#include "daemon/experiment/run_log.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

class ExperimentFolderTest : public ::testing::Test {
 protected:
  ExperimentFolderTest()
      : dir_((std::filesystem::temp_directory_path() /
              absl::StrCat("atoll-experiment-", getpid(), "-",
                           ::testing::UnitTest::GetInstance()->current_test_info()->name()))
                 .string()) {
    std::filesystem::create_directories(dir_);
  }
  ~ExperimentFolderTest() override { std::filesystem::remove_all(dir_); }

  static Experiment Of(const std::string& text) {
    Experiment experiment = *ParseExperiment("[experiment]\n" + text, "/x/try.toml", "/x");
    return experiment;
  }

  PosixFiles files_;
  const std::string dir_;
};

TEST_F(ExperimentFolderTest, AChangedFileIsRefusedWithWhatDiffers) {
  // Broken: runs of two different experiments would be mixed in one table.
  ASSERT_TRUE(OpenExperimentFolder(files_, dir_, Of("parties = 2\n"), false).ok());
  EXPECT_TRUE(OpenExperimentFolder(files_, dir_, Of("parties = 2\n"), false).ok());
  const absl::Status changed = OpenExperimentFolder(files_, dir_, Of("parties = 3\n"), false);
  EXPECT_EQ(changed.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(changed.message()),
              HasSubstr("line 2: `parties = 2` there, `parties = 3` here; give --fresh"));
  std::ofstream(dir_ + "/" + kResultsFile) << "old\n";
  ASSERT_TRUE(OpenExperimentFolder(files_, dir_, Of("parties = 3\n"), true).ok());
  EXPECT_FALSE(std::filesystem::exists(dir_ + "/" + kResultsFile));
  const auto kept = ExperimentOfFolder(files_, dir_);
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_EQ(kept->name, "try");
  EXPECT_EQ(kept->path, "/x/try.toml");
  EXPECT_EQ(kept->keys.parties, 3u);
}

TEST_F(ExperimentFolderTest, AnotherFolderIsNeverTouched) {
  // Broken: --fresh on a mistyped folder would take away what somebody keeps there.
  std::ofstream(dir_ + "/thesis.tex") << "x";
  const absl::Status refused = OpenExperimentFolder(files_, dir_, Of(""), true);
  EXPECT_EQ(refused.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("it holds thesis.tex"));
  EXPECT_TRUE(std::filesystem::exists(dir_ + "/thesis.tex"));
  EXPECT_FALSE(ExperimentOfFolder(files_, dir_).ok());
}

TEST(RunLogTest, KnowsTheRoundFromTheLog) {
  // Broken: progress and time left would be made up.
  EXPECT_EQ(NewestRound(""), 0u);
  EXPECT_EQ(NewestRound("run x in y\nround 3 of 40: training loss 2\nround 4 of 40: training\n"
                        "round trips are slow\nversion 4: validation loss 2.1\n"),
            4u);
}

TEST(RunLogTest, TheReasonIsNotTheHintBelowIt) {
  // Broken: a failed run's reason would be what to type next, or the line above the true one.
  EXPECT_EQ(ReasonIn("round 3 of 40: training loss 2\nstopped at round 3 of 40; the run is in /x\n"
                     "Go on with: atoll local --dir /x\nit ended: for 20 s nobody could train\n"),
            "for 20 s nobody could train");
  EXPECT_EQ(ReasonIn("run x\nit ended: peer-1 exited with 1 at its start:\n  starts\n"
                     "  its disk is full\n"),
            "peer-1 exited with 1 at its start: its disk is full");
  EXPECT_EQ(ReasonIn("atoll local: [data] path is not there\n"),
            "atoll local: [data] path is not there");
  EXPECT_EQ(ReasonIn("stopped at round 3 of 40; the run is in /x\nGo on with: atoll local\n"),
            "stopped at round 3 of 40; the run is in /x");
  EXPECT_EQ(ReasonIn("it ended: of yesterday\ngoing on with the run in /x\nround 4 of 40: \n"),
            "round 4 of 40:");
  EXPECT_EQ(ReasonIn("Try next:\n  atoll generate --dir x\nit ended: the peers' states differ\n"),
            "the peers' states differ");
  EXPECT_EQ(ReasonIn(""), "");
}

TEST(LabTopologyTest, EveryPeerHasTheLineOfItsParty) {
  // Broken: --in lab would run parties on open lines, on another's, or twice as far away.
  LinkKeys all;
  all.pattern = "default";
  all.up = 2500000;
  all.down = 12500000;
  all.delay = absl::Milliseconds(20);
  LinkKeys one;
  one.pattern = "party-1";
  one.up = 250000;
  one.loss = 0.5;
  const std::string text = LabTopology({all, one}, 2, 7);
  EXPECT_THAT(text, HasSubstr("seed = 7\n"));
  EXPECT_THAT(text, HasSubstr("[region.peer]\npeers = 2\n"));
  EXPECT_THAT(text, HasSubstr("[peer.peer-1]\nup = \"2Mbit\"\ndown = \"10Gbit\"\n"
                              "rtt = \"0us\"\nloss = 0.005\n"));
  EXPECT_THAT(text, HasSubstr("[peer.peer-2]\nup = \"20Mbit\"\ndown = \"100Mbit\"\n"
                              "rtt = \"40000us\"\nloss = 0\n"));
}

}  // namespace
}  // namespace atolld
