#include "worker/hub/output_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace atolld {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class OutputFolderTest : public ::testing::Test {
 protected:
  OutputFolderTest() {
    std::string pattern = (fs::temp_directory_path() / "atoll-XXXXXX").string();
    top_ = ::mkdtemp(pattern.data());
    Write("in/config.json");
    Write("in/model.safetensors");
  }
  ~OutputFolderTest() override { fs::remove_all(top_); }
  std::string At(const std::string& name) const { return (top_ / name).string(); }
  void Write(const std::string& name) const {
    fs::create_directories((top_ / name).parent_path());
    std::ofstream(At(name)) << name;
  }
  static std::string Refusal(const absl::Status& status) {
    return status.ok() ? "" : std::string(status.message());
  }

  fs::path top_;
};

TEST_F(OutputFolderTest, NothingIsWrittenOntoItsOwnInput) {
  // Broken: an import would destroy the model that it reads.
  fs::create_directory_symlink(At("in"), At("link"));
  fs::create_directories(At("out"));
  fs::create_symlink(At("in/model.safetensors"), At("out/model.safetensors"));
  fs::create_directories(At("hard"));
  fs::create_hard_link(At("in/config.json"), At("hard/config.json"));
  for (const char* output : {"in", "link", "in/../in", "out", "hard"}) {
    for (const bool force : {false, true}) {
      const absl::Status status = CheckOutputFolder(At(output), {At("in")}, force);
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << output;
      EXPECT_THAT(Refusal(status), HasSubstr("name another folder to write"));
    }
  }
  EXPECT_FALSE(CheckOutputFolder(At("in"), {At("in/model.safetensors")}, true).ok());
  EXPECT_TRUE(CheckOutputFolder(At("new"), {At("in"), ""}, false).ok());
}

TEST_F(OutputFolderTest, AnothersModelIsWrittenOverOnlyOnRequest) {
  // Broken: an export into the wrong folder would destroy the model of somebody else.
  Write("other/config.json");
  Write("other/model-00001-of-00002.safetensors");
  Write("other/notes.txt");
  const absl::Status status = CheckOutputFolder(At("other"), {At("in")}, false);
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(Refusal(status),
              HasSubstr("(config.json, model-00001-of-00002.safetensors): name another folder, or "
                        "--force"));
  EXPECT_TRUE(CheckOutputFolder(At("other"), {At("in")}, true).ok());
  Write("only-notes/notes.txt");
  EXPECT_TRUE(CheckOutputFolder(At("only-notes"), {}, false).ok());
  EXPECT_FALSE(CheckOutputFolder(At("other/notes.txt"), {}, true).ok());
}

TEST_F(OutputFolderTest, WeightsOfTheModelBeforeDoNotStay) {
  // Broken: readers would take the old weights, which lie beside the new ones.
  Write("a/model.safetensors");
  Write("a/model-00001-of-00002.safetensors");
  Write("a/notes.txt");
  RemoveOtherWeights(At("a"));
  EXPECT_THAT(ModelFilesIn(At("a")), ElementsAre("model.safetensors"));
  EXPECT_TRUE(fs::exists(At("a/notes.txt")));
  Write("b/model.safetensors");
  Write("b/model-00001-of-00002.safetensors");
  Write("b/model.safetensors.index.json");
  RemoveOtherWeights(At("b"));
  EXPECT_THAT(ModelFilesIn(At("b")),
              ElementsAre("model-00001-of-00002.safetensors", "model.safetensors.index.json"));
  EXPECT_THAT(ModelFilesIn(At("none")), IsEmpty());
}

}  // namespace
}  // namespace atolld
