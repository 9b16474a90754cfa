#include "worker/hub/output_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

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
  std::string Text(const std::string& name) const {
    std::ifstream file(At(name));
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  // A new model of these files.
  void Finish(const std::string& output, const std::vector<std::string>& names) const {
    absl::StatusOr<OutputFolder> folder = OutputFolder::Make(At(output), 0);
    ASSERT_TRUE(folder.ok()) << folder.status();
    for (const std::string& name : names) std::ofstream(folder->place() + "/" + name) << "new";
    ASSERT_TRUE(folder->Finish().ok());
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
  EXPECT_THAT(Refusal(OutputFolder::Make(At("other/notes.txt/x"), 0).status()),
              HasSubstr("other/notes.txt/x cannot be written to: Not a directory"));
}

TEST_F(OutputFolderTest, WeightsOfTheModelBeforeDoNotStay) {
  // Broken: readers would take the old weights, which lie beside the new ones.
  Write("a/model-00001-of-00002.safetensors");
  Write("a/model-00002-of-00002.safetensors");
  Write("a/model.safetensors.index.json");
  Write("a/adapter_config.json");
  Write("a/notes.txt");
  Finish("a", {"model.safetensors", "config.json"});
  EXPECT_THAT(ModelFilesIn(At("a")), ElementsAre("config.json", "model.safetensors"));
  EXPECT_TRUE(fs::exists(At("a/notes.txt")));
  Write("b/model.safetensors");
  Write("b/model-00001-of-00003.safetensors");
  Finish("b", {"model-00001-of-00002.safetensors", "model.safetensors.index.json"});
  EXPECT_THAT(ModelFilesIn(At("b")),
              ElementsAre("model-00001-of-00002.safetensors", "model.safetensors.index.json"));
  EXPECT_THAT(ModelFilesIn(At("none")), IsEmpty());
}

TEST_F(OutputFolderTest, AModelComesWholeOrNotAtAll) {
  // Broken: a tokenizer that could not be copied would leave new weights beside an old tokenizer,
  // or half a model that passes for one.
  Write("old/config.json");
  Write("old/tokenizer.json");
  for (const char* output : {"old", "new/deep"}) {
    absl::StatusOr<OutputFolder> folder = OutputFolder::Make(At(output), 10);
    ASSERT_TRUE(folder.ok()) << folder.status();
    std::ofstream(folder->place() + "/model.safetensors") << "new";
    std::ofstream(folder->place() + "/config.json") << "new";
  }
  EXPECT_EQ(Text("old/config.json"), "old/config.json");
  EXPECT_THAT(ModelFilesIn(At("old")), ElementsAre("config.json", "tokenizer.json"));
  EXPECT_EQ(std::distance(fs::directory_iterator(At("old")), fs::directory_iterator()), 2);
  EXPECT_FALSE(fs::exists(At("new/deep")));
  Finish("old", {"model.safetensors", "config.json"});
  EXPECT_EQ(Text("old/config.json"), "new");
  EXPECT_EQ(std::distance(fs::directory_iterator(At("old")), fs::directory_iterator()), 3);
}

TEST_F(OutputFolderTest, ADiskThatIsTooSmallIsNamedBeforeAnythingIsWritten) {
  // Broken: an export would fill the disk, and say so only at its end.
  const uint64_t much = uint64_t{1} << 60;
  const absl::Status status = OutputFolder::Make(At("big"), much).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(Refusal(status), HasSubstr(At("big") + " needs 1152921504606846976 bytes, and its "
                                                     "disk has "));
  EXPECT_FALSE(fs::exists(At("big")));
  EXPECT_TRUE(CheckRoom(At("none/such"), 1).ok());
}

}  // namespace
}  // namespace atolld
