#include "daemon/coordinator/tracker_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/env/posix_executor.h"
#include "daemon/env/posix_files.h"
#include "tests/sim/sim_world.h"
#include "tests/unit/daemon/env/temporary_directory.h"

namespace atolld {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class Lines final : public Log {
 public:
  void Write(Level /*level*/, absl::string_view line) override { lines.emplace_back(line); }
  std::vector<std::string> lines;
};

// A coordinator's folder, and a program in place of atoll-track.
class TrackerProcessTest : public ::testing::Test {
 protected:
  TrackerProcessTest() : world_(1) {
    world_.AddProcess("coordinator");
    config_.coordinator.address = "127.0.0.1:7070";
    config_.coordinator.dir = dir_.File("c");
    config_.tracking.wandb = "project";
    config_.tracking.tensorboard = "/boards";
  }

  Env env() { return Env{executor_, files_, world_.process("coordinator").env().transport, log_}; }

  void WriteProgram(const std::string& text) {
    config_.tracking.program = dir_.File("program");
    std::ofstream(config_.tracking.program) << "#!/bin/sh\n" << text << "\n";
    std::filesystem::permissions(config_.tracking.program, std::filesystem::perms::owner_all);
  }

  bool WaitForLine(const std::string& part) {
    return executor_.RunUntil(
        [&] {
          for (const std::string& line : log_.lines) {
            if (absl::StrContains(line, part)) return true;
          }
          return false;
        },
        absl::Seconds(30));
  }

  const TemporaryDirectory dir_;
  SimWorld world_;
  PosixExecutor executor_{PosixExecutor::Options()};
  PosixFiles files_;
  Lines log_;
  Config config_;
};

// Would break: the program asks another coordinator than its own, or shows no identity.
TEST_F(TrackerProcessTest, IsToldItsCoordinatorAndItsTrackers) {
  WriteProgram("echo \"$@\"; pwd; echo end");
  TrackerProcess tracker(env(), "/programs", config_);
  tracker.Start();
  ASSERT_TRUE(WaitForLine("end"));
  const std::string c = dir_.File("c");
  EXPECT_THAT(log_.lines,
              ElementsAre(absl::StrCat("tracking: --follow --atoll /programs/atoll ", "--state ", c,
                                       "/tracking --coordinator ", "127.0.0.1:7070 --identity ", c,
                                       "/admin --to tensorboard:/boards --to "
                                       "wandb:project"),
                          EndsWith("/c/tracking"), "tracking: end"));
}

// Would break: every coordinator starts a program that nobody has asked for.
TEST_F(TrackerProcessTest, IsNotStartedWithoutTrackers) {
  config_.tracking = TrackingConfig();
  TrackerProcess tracker(env(), dir_.path(), config_);
  tracker.Start();
  EXPECT_FALSE(tracker.running());
  EXPECT_THAT(log_.lines, IsEmpty());
}

// Would break: the figures end for good with the program's first death.
TEST_F(TrackerProcessTest, IsStartedAgain) {
  WriteProgram(absl::StrCat("[ -e ", dir_.File("once"), " ] && echo again && exec sleep 60\n", "> ",
                            dir_.File("once"), "\nkill -9 $$"));
  TrackerProcess tracker(env(), "/programs", config_);
  tracker.Start();
  ASSERT_TRUE(WaitForLine("tracking: again"));
  EXPECT_THAT(log_.lines,
              ElementsAre("atoll-track is gone (killed by signal 9 (Killed)); starting it again "
                          "in 1s",
                          "tracking: again"));
}

// Would break: a library that is missing fills the log for as long as the run lasts.
TEST_F(TrackerProcessTest, IsGivenUpWhereALibraryIsMissing) {
  WriteProgram("echo 'pip install it' >&2; exit 3");
  TrackerProcess tracker(env(), "/programs", config_);
  tracker.Start();
  ASSERT_TRUE(WaitForLine("the run is not tracked: pip install it"));
  EXPECT_FALSE(tracker.running());
  EXPECT_THAT(log_.lines, SizeIs(2));  // nothing about another start
}

// Would break: a program that pip has not installed is a line of the kernel's in the log.
TEST_F(TrackerProcessTest, NamesWhatIsMissing) {
  const std::string path = std::getenv("PATH");
  ASSERT_EQ(setenv("PATH", dir_.path().c_str(), 1), 0);
  TrackerProcess tracker(env(), dir_.path(), config_);
  tracker.Start();
  ASSERT_EQ(setenv("PATH", path.c_str(), 1), 0);
  EXPECT_FALSE(tracker.running());
  EXPECT_THAT(log_.lines, ElementsAre(NoTrackingProgramText()));
}

// Would break: the newest figures are lost at a coordinator's end, or the program is left behind.
TEST_F(TrackerProcessTest, WritesTheLastFiguresAndIsNotStartedAgain) {
  WriteProgram("trap 'echo last; exit 1' TERM\necho begun\nwhile true; do sleep 0.05; done");
  TrackerProcess tracker(env(), "/programs", config_);
  tracker.Start();
  ASSERT_TRUE(WaitForLine("begun"));
  tracker.End();
  ASSERT_TRUE(executor_.RunUntil([&] { return !tracker.running(); }, absl::Seconds(30)));
  EXPECT_THAT(log_.lines, ElementsAre("tracking: begun", "tracking: last"));
}

}  // namespace
}  // namespace atolld
