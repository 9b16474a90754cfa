#include "daemon/experiment/compose_launcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_join.h"
#include "daemon/env/posix_files.h"

namespace atolld {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using Stage = ComposeLauncher::Stage;

TEST(ComposeLauncherTest, EveryCommandIsOfTheRunsOwnProject) {
  // Broken: a run would take down another's containers, or read its results.
  PosixFiles files;
  Experiment experiment;
  RunPlan one, other;
  one.id = "01-a-seed-1";
  other.id = "01-a-seed-2";
  ComposeLauncher launcher(files, experiment, "/e", {"docker", "compose"}, {one, other});
  for (const Stage stage : {Stage::kClear, Stage::kUp, Stage::kWatch, Stage::kFigures,
                            Stage::kReport, Stage::kLogs, Stage::kDown}) {
    const std::string command = absl::StrJoin(launcher.CommandOf(1, stage), " ");
    EXPECT_THAT(command, HasSubstr("docker compose -p " + ComposeProject("/e", other.id) +
                                   " -f /e/compose/01-a-seed-2.yml "));
  }
  EXPECT_THAT(launcher.CommandOf(0, Stage::kUp),
              ElementsAre("docker", "compose", "-p", ComposeProject("/e", one.id), "-f",
                          "/e/compose/01-a-seed-1.yml", "up", "-d", "--no-build"));
  EXPECT_EQ(launcher.CommandOf(0, Stage::kDown), launcher.CommandOf(0, Stage::kClear));
}

TEST(ComposeLauncherTest, ResultsLandWhereALocalRunHasThem) {
  // Broken: a run in containers would never count as finished, or without its figures.
  PosixFiles files;
  Experiment experiment;
  RunPlan plan;
  plan.id = "01-a-seed-1";
  ComposeLauncher launcher(files, experiment, "/e", {"docker", "compose"}, {plan});
  const auto ends = [&](Stage stage) {
    const std::vector<std::string> command = launcher.CommandOf(0, stage);
    return std::make_pair(command[3], command.back());
  };
  EXPECT_EQ(ends(Stage::kFigures), std::make_pair(std::string("/e/runs/01-a-seed-1/metrics.jsonl"),
                                                  std::string("/data/results/metrics.jsonl")));
  EXPECT_EQ(ends(Stage::kReport), std::make_pair(std::string("/e/runs/01-a-seed-1.json"),
                                                 std::string("/data/results/report.json")));
  EXPECT_EQ(launcher.CommandOf(0, Stage::kWatch).back(), "/data/results");
}

TEST(ComposeLauncherTest, ALookIsAtTheRunsOwnPeersAndKeepsOutOfItsLog) {
  // Broken: a run would be ended because another's peers are gone, or a complaint of the engine's
  // be taken for the run's last line.
  PosixFiles files;
  Experiment experiment;
  RunPlan plan;
  plan.id = "01-a-seed-1";
  ComposeLauncher launcher(files, experiment, "/e", {"docker", "compose"}, {plan});
  const std::vector<std::string> command = launcher.LookCommand(0);
  ASSERT_GE(command.size(), 4u);
  EXPECT_EQ(command[2], "exec \"$@\" > \"$0\" 2>&1");
  EXPECT_EQ(command[3], "/e/runs/01-a-seed-1/peers.txt");
  EXPECT_THAT(absl::StrJoin(command, " "),
              HasSubstr("docker ps -a --filter label=com.docker.compose.project=" +
                        ComposeProject("/e", plan.id) + " "));
}

TEST(ComposeLauncherTest, AProjectIsOfOneFolderAndANameThatComposeTakes) {
  // Broken: two experiments of one name would share containers, or Compose would refuse the name.
  const std::string project = ComposeProject("/a", "01-fedprox-alpha-0-1-seed-2");
  EXPECT_THAT(project, MatchesRegex("[a-z0-9][a-z0-9_-]*"));
  EXPECT_EQ(project, ComposeProject("/a", "01-fedprox-alpha-0-1-seed-2"));
  EXPECT_NE(project, ComposeProject("/b", "01-fedprox-alpha-0-1-seed-2"));
}

}  // namespace
}  // namespace atolld
