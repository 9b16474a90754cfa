#include "daemon/program/process_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "daemon/env/posix_files.h"
#include "tests/unit/daemon/env/temporary_directory.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

class ProcessFolderTest : public ::testing::Test {
 protected:
  ProcessFolder Folder(const std::string& name, bool fresh = false) const {
    return {directory_.File(name), "[coordinator] dir", directory_.File("run.toml"), fresh};
  }
  std::string Refusal(const ProcessFolder& folder) {
    return std::string(EnsureProcessFolder(files_, folder).message());
  }

  const TemporaryDirectory directory_;
  PosixFiles files_;
};

TEST_F(ProcessFolderTest, AFolderThatWasThereIsNotMadeAnew) {
  // Broken: the coordinator of a run that was moved would begin an empty run of the same name, with
  // another authority.
  ASSERT_TRUE(EnsureProcessFolder(files_, Folder("c")).ok());
  ASSERT_TRUE(EnsureProcessFolder(files_, Folder("c")).ok());
  std::filesystem::rename(directory_.File("c"), directory_.File("moved"));
  const absl::Status refused = EnsureProcessFolder(files_, Folder("c/"));
  EXPECT_TRUE(absl::IsFailedPrecondition(refused));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("set [coordinator] dir to where it is"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("--new"));
  EXPECT_FALSE(files_.Exists(directory_.File("c")));
  ASSERT_TRUE(EnsureProcessFolder(files_, Folder("moved")).ok());
  ASSERT_TRUE(EnsureProcessFolder(files_, Folder("c", /*fresh=*/true)).ok());
  EXPECT_TRUE(files_.Exists(directory_.File("c")));
  // Also where somebody else has made it.
  ASSERT_TRUE(files_.MakeDirectories(directory_.File("made")).ok());
  ASSERT_TRUE(EnsureProcessFolder(files_, Folder("made")).ok());
  std::filesystem::remove_all(directory_.File("made"));
  EXPECT_THAT(Refusal(Folder("made")), HasSubstr("a run was in it before"));
}

TEST_F(ProcessFolderTest, AMissingParentIsAMistypedPathOrAMissingDisk) {
  // Broken: a run would begin on the disk of the system where its own is not mounted.
  EXPECT_TRUE(absl::IsNotFound(CheckProcessFolder(files_, Folder("disk/c"))));
  EXPECT_THAT(Refusal(Folder("disk/c")), HasSubstr("nor does " + directory_.File("disk")));
  EXPECT_FALSE(files_.Exists(directory_.File("disk")));
  EXPECT_TRUE(EnsureProcessFolder(files_, Folder("disk/c", /*fresh=*/true)).ok());
}

TEST_F(ProcessFolderTest, AFolderWithItsOwnConfigNeedsNoNote) {
  // Broken: files would be left beside every folder of a local run, which moves with its configs.
  ProcessFolder folder = Folder("run/peer-1");
  folder.config = directory_.File("run/peer-1/config.toml");
  ASSERT_TRUE(files_.MakeDirectories(folder.dir).ok());
  ASSERT_TRUE(EnsureProcessFolder(files_, folder).ok());
  EXPECT_EQ(files_.List(directory_.File("run"))->size(), 1u);
}

}  // namespace
}  // namespace atolld
