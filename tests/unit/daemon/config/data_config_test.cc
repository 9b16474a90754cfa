#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "daemon/config/config.h"
#include "daemon/config/config_data.h"

namespace atolld {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class DataConfigTest : public ::testing::Test {
 protected:
  DataConfigTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "atoll-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
    std::filesystem::create_directory(folder_ / "prepared");
    Write("prepared/data.json", "{\"vocabulary\": 700}");
    Write("a.txt", "text");
    Write("tokenizer.json", "{}");
  }
  ~DataConfigTest() override { std::filesystem::remove_all(folder_); }

  void Write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }

  absl::StatusOr<Config> Load(const std::string& lines, ConfigUse use = ConfigUse::kLocal) {
    Write("x.toml", lines);
    return LoadConfig((folder_ / "x.toml").string(), use);
  }

  std::string ErrorOf(const std::string& lines, ConfigUse use = ConfigUse::kLocal) {
    const auto config = Load(lines, use);
    EXPECT_FALSE(config.ok());
    return std::string(config.status().message());
  }

  std::string Path(const std::string& name) const { return (folder_ / name).string(); }

  std::filesystem::path folder_;
};

// Broken: a model would be made for another number of tokens than its data has.
TEST_F(DataConfigTest, TheVocabularyIsTheDatas) {
  const auto prepared = Load("[data]\npath = \"prepared\"\n");
  ASSERT_TRUE(prepared.ok()) << prepared.status();
  EXPECT_EQ(MakeRunSpec(*prepared).model().vocabulary(), 700u);
  // Padded on purpose, as nanoGPT does.
  const auto padded = Load("[data]\npath = \"prepared\"\n[model]\nvocabulary = 768\n");
  EXPECT_EQ(MakeRunSpec(*padded).model().vocabulary(), 768u);
  const auto bytes = Load("[data]\npath = \"a.txt\"\n");
  EXPECT_EQ(MakeRunSpec(*bytes).model().vocabulary(), 256u);
  EXPECT_EQ(MakeRunSpec(*bytes).data().kind(), "text");
  EXPECT_EQ(MakeRunSpec(*bytes).data().tokenizer(), "");
  // What a local run's coordinator is given, which reads no data.
  EXPECT_THAT(FormatConfig(*prepared), HasSubstr("vocabulary = 700 "));
}

// Broken: a run of text and a tokenizer would begin with a model that cannot take its tokens.
TEST_F(DataConfigTest, AMissingVocabularyIsAskedFor) {
  for (const ConfigUse use : {ConfigUse::kLocal, ConfigUse::kCoordinator}) {
    const std::string more = "[coordinator]\ndir = \"c\"\n[data]\npath = \"a.txt\"\n";
    EXPECT_THAT(ErrorOf(more + "kind = \"bin\"\n", use), HasSubstr("with [data] kind 'bin'"));
  }
  // A coordinator has no text to count in; a local run has.
  const std::string chars =
      "[coordinator]\ndir = \"c\"\n[data]\npath = \"a.txt\"\ntokenizer = \"chars\"\n";
  EXPECT_THAT(ErrorOf(chars, ConfigUse::kCoordinator),
              HasSubstr("x.toml:5: [model] vocabulary is missing: with [data] tokenizer 'chars'"));
  const auto counted = Load(chars);
  ASSERT_TRUE(counted.ok()) << counted.status();
  EXPECT_TRUE(NeedsCounting(counted->data));
  EXPECT_FALSE(NeedsCounting(Load("[data]\npath = \"a.txt\"\n")->data));
  EXPECT_FALSE(NeedsCounting(Load("[data]\npath = \"prepared\"\ntokenizer = \"chars\"\n")->data));
  const auto said =
      Load("[data]\npath = \"a.txt\"\ntokenizer = \"chars\"\n[model]\nvocabulary = 9\n");
  ASSERT_TRUE(said.ok()) << said.status();
  EXPECT_EQ(MakeRunSpec(*said).data().tokenizer(), "chars");
}

// Broken: a worker would look for its data in its own folder, or not be told of the tokenizer.
TEST_F(DataConfigTest, PlacesAreAbsoluteAndSourcesKeepTheirOrder) {
  const auto config = Load(
      "[model]\nvocabulary = 700\n[data]\nsources = \"prepared:0.75, a.txt:0.25\"\n"
      "tokenizer = \"tokenizer.json\"\nfield = \"body\"\n");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(WorkerPlaces(config->data), absl::StrCat(Path("prepared"), "\n", Path("a.txt"),
                                                     "\ntokenizer ", Path("tokenizer.json")));
  const v1::RunSpec spec = MakeRunSpec(*config);
  EXPECT_THAT(spec.data().weights(), ElementsAre(0.75, 0.25));
  EXPECT_EQ(spec.data().tokenizer(), "file");
  EXPECT_EQ(spec.data().field(), "body");
  Write("y.toml", FormatConfig(*config));
  const auto again = LoadConfig(Path("y.toml"), ConfigUse::kLocal);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(FormatConfig(*again), FormatConfig(*config));
}

// Broken: a slip in the section would be found by a worker on another machine, or not at all.
TEST_F(DataConfigTest, NamesWhatIsWrong) {
  EXPECT_THAT(ErrorOf("[data]\nsources = \"a.txt\"\n"),
              HasSubstr("x.toml:2: [data] sources must be of the form"));
  EXPECT_THAT(ErrorOf("[data]\nsources = \"a.txt:1,:2\"\n"), HasSubstr("not ':2'"));
  EXPECT_THAT(ErrorOf("[data]\nsources = \"a.txt:0\"\n"), HasSubstr("not 'a.txt:0'"));
  EXPECT_THAT(ErrorOf("[data]\npath = \"a.txt\"\nsources = \"a.txt:1\"\n"),
              HasSubstr("x.toml:3: [data] sources is in place of path"));
  EXPECT_THAT(ErrorOf("[data]\nsources = \"a.txt:1,b.txt:1\"\n"),
              HasSubstr("x.toml:2: data.sources 'b.txt' does not exist"));
  EXPECT_THAT(
      ErrorOf("[model]\nvocabulary = 9\n[data]\npath = \"a.txt\"\ntokenizer = \"t.json\"\n"),
      HasSubstr("x.toml:5: data.tokenizer 't.json' does not exist"));
  EXPECT_THAT(ErrorOf("[data]\npath = \"a.txt\"\nkind = \"csv\"\n"),
              HasSubstr("[data] kind must be"));
}

}  // namespace
}  // namespace atolld
