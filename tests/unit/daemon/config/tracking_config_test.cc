#include "daemon/config/tracking_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "daemon/config/config_text.h"
#include "tests/unit/daemon/config/config_file.h"

namespace atolld {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Would break: a service's address becomes a folder, or a folder is looked for where the daemon
// happens to run.
TEST(TrackingConfig, FoldersStartAtTheFileAndServicesStay) {
  ConfigFile file;
  const absl::StatusOr<Config> config = file.Load(
      "[tracking]\ntensorboard = \"boards\"\nwandb = \"team/project\"\nmlflow = \"mlflow\"\n");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->tracking.tensorboard, file.Path("boards"));
  EXPECT_EQ(config->tracking.mlflow, file.Path("mlflow"));
  EXPECT_THAT(TrackingTargets(config->tracking),
              ElementsAre("--to", "tensorboard:" + file.Path("boards"), "--to",
                          "wandb:team/project", "--to", "mlflow:" + file.Path("mlflow")));
  for (const char* uri : {"http://h:5000", "sqlite:////x/mlflow.db", "databricks://profile"}) {
    EXPECT_EQ(file.Load(absl::StrCat("[tracking]\nmlflow = \"", uri, "\"\n"))->tracking.mlflow,
              uri);
  }
  // As the configs of a local run's processes are written.
  EXPECT_THAT(FormatConfig(*config), HasSubstr("mlflow = \"" + file.Path("mlflow") + "\""));
}

// Would break: a run without trackers starts a program.
TEST(TrackingConfig, IsOffUnlessATrackerIsNamed) {
  TrackingConfig tracking;
  tracking.program = "/bin/atoll-track";
  EXPECT_FALSE(tracking.on());
  EXPECT_THAT(TrackingTargets(tracking), IsEmpty());
  tracking.mlflow = "http://h";
  EXPECT_TRUE(tracking.on());
}

// Would break: the program of a virtual environment that is named is passed over.
TEST(TrackingConfig, FindsTheProgram) {
  ConfigFile file;
  TrackingConfig tracking;
  const std::string folder = std::filesystem::path(file.Path("x")).parent_path().string();
  EXPECT_THAT(NoTrackingProgramText(), HasSubstr("pip install 'atoll[track]'"));
  const std::string beside = file.Write("atoll-track", "#!/bin/sh\n");
  std::filesystem::permissions(beside, std::filesystem::perms::owner_all);
  EXPECT_EQ(FindTrackingProgram(tracking, folder), beside);
  tracking.program = "/venv/bin/atoll-track";
  EXPECT_EQ(FindTrackingProgram(tracking, folder), "/venv/bin/atoll-track");
}

}  // namespace
}  // namespace atolld
