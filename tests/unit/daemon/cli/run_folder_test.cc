#include "daemon/cli/run_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "compression/base/check.h"
#include "daemon/cli/local_layout.h"
#include "daemon/env/posix_files.h"
#include "daemon/env/posix_folder_lock.h"
#include "daemon/replica/state/replica.h"
#include "tests/unit/daemon/env/temporary_directory.h"
#include "tests/unit/daemon/replica/state/test_run.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

class RunFolderTest : public ::testing::Test {
 protected:
  RunFolderTest() {
    layout_.dir = directory_.path();
    for (const char* id : {"coordinator", "peer-1", "peer-2"}) {
      LocalProcess process;
      process.id = id;
      process.role = process.id == "coordinator" ? "coordinator" : "peer";
      process.dir = directory_.File(id);
      process.address = "127.0.0.1:7070";
      CHECK_OK(files_.MakeDirectories(process.dir));
      layout_.processes.push_back(process);
    }
    CHECK_OK(WritePeersFile(files_, layout_));
  }

  TemporaryDirectory directory_;
  PosixFiles files_;
  LocalLayout layout_;
  TestRun run_;
};

TEST_F(RunFolderTest, ARunThatIsOverTellsHowFarItCame) {
  // Broken: of a run that is over one would learn only that no coordinator answers.
  const OwnedReplica behind = *CreateReplica(files_, directory_.File("peer-1"), run_);
  const OwnedReplica replica = *CreateReplica(files_, directory_.File("peer-2"), run_);
  run_.CommitTo(*behind, 2);
  run_.CommitTo(*replica, 3);
  absl::StatusOr<v1::RunStatus> status = RunStatusOfFolder(files_, directory_.path());
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_EQ(status->version(), 3u);
  EXPECT_EQ(status->phase(), "stopped");
  EXPECT_THAT(status->reason(), HasSubstr("no coordinator of it runs; go on with: atoll local"));
  EXPECT_EQ(status->parameters(), run_.elements);
  ASSERT_EQ(status->peers_size(), 2);
  EXPECT_EQ(status->peers(0).member().state(), "ended");
  EXPECT_EQ(status->peers(0).member().version(), 2u);
  EXPECT_EQ(status->peers(1).member().version(), 3u);

  ASSERT_TRUE(replica->WriteSeal(SealOf(*replica)).ok());
  status = RunStatusOfFolder(files_, directory_.path());
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_EQ(status->phase(), "sealed");
  EXPECT_EQ(status->reason(), "");
  EXPECT_EQ(status->seal().version(), 3u);
}

TEST_F(RunFolderTest, ACoordinatorThatHangsIsNamed) {
  // Broken: one would start a second beside it.
  const OwnedReplica replica = *CreateReplica(files_, directory_.File("peer-1"), run_);
  const auto lock = FolderLock::Take(directory_.File("coordinator"));
  ASSERT_TRUE(lock.ok());
  const absl::StatusOr<v1::RunStatus> status = RunStatusOfFolder(files_, directory_.path());
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_THAT(status->reason(),
              HasSubstr(absl::StrCat("process ", getpid(), " and does not answer")));
}

}  // namespace
}  // namespace atolld
