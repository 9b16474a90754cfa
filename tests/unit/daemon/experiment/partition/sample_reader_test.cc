// Would break: data is cut in the midst of a sample, or a sample has another's label.
#include "daemon/experiment/partition/sample_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "daemon/env/posix_files.h"
#include "daemon/experiment/partition/label_pattern.h"
#include "daemon/experiment/partition/npy_file.h"
#include "tests/unit/daemon/env/temporary_directory.h"

namespace atolld {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

using TextAndLabel = std::pair<std::string, std::string>;

class SampleReaderTest : public ::testing::Test {
 protected:
  SampleReaderTest() { settings_.path = directory_.File("data.txt"); }

  void Write(const std::string& name, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(directory_.File(name)).parent_path());
    std::ofstream(directory_.File(name), std::ios::binary) << text;
  }

  std::vector<TextAndLabel> Read() {
    const absl::StatusOr<SampleSet> set = ReadSamples(files_, settings_);
    EXPECT_TRUE(set.ok()) << set.status();
    std::vector<TextAndLabel> found;
    if (!set.ok()) return found;
    left_over_ = set->left_over;
    for (const Sample& sample : set->samples) {
      found.emplace_back(std::string(set->Text(sample)), set->labels[sample.label]);
    }
    return found;
  }

  std::string Fault() { return std::string(ReadSamples(files_, settings_).status().message()); }

  TemporaryDirectory directory_;
  PosixFiles files_;
  PartitionSettings settings_;
  std::vector<LeftOver> left_over_;
};

TEST_F(SampleReaderTest, LinesAndParagraphs) {
  // Broken: blank lines are samples, or the last line is lost for want of an end.
  Write("data.txt", "Alpha\n\nbeta\n gamma\n\n\nDelta");
  settings_.label = "first_letter";
  EXPECT_THAT(Read(), ElementsAre(Pair("Alpha\n", "A"), Pair("beta\n", "B"), Pair(" gamma\n", "G"),
                                  Pair("Delta", "D")));
  settings_.unit = "paragraph";
  EXPECT_THAT(Read(),
              ElementsAre(Pair("Alpha\n", "A"), Pair("beta\n gamma\n", "B"), Pair("Delta", "D")));
}

TEST_F(SampleReaderTest, SpeechesAreTheirSpeakers) {
  // Broken: a play's speakers are no natural key.
  Write("data.txt",
        "First Citizen:\nSpeak.\n\nAll:\nHear: hear!\n\nAnd on.\n\nFirst Citizen:\nAgain.\n");
  settings_.unit = "speech";
  const auto speeches = ElementsAre(Pair("First Citizen:\nSpeak.\n", "First Citizen"),
                                    Pair("All:\nHear: hear!\n\nAnd on.\n", "All"),
                                    Pair("First Citizen:\nAgain.\n", "First Citizen"));
  EXPECT_THAT(Read(), speeches);
  settings_.label = "speaker";
  EXPECT_THAT(Read(), speeches);
}

TEST_F(SampleReaderTest, DictionaryEntriesHaveSubjects) {
  // Broken: the example of the docs, GCIDE by subject, has no topics. An excerpt in its form.
  Write("data.txt",
        "\nAmole \\A*mo\"le\\, n. [Mex.] (Bot.)\n   A plant.\n   [1913 Webster]\n\n"
        "   2. Its root.\n      [1913 Webster]\n\n"
        "Alleyway \\Al\"ley*way`\\n.\n   An alley.\n\n"
        "Amphipod \\Am\"phi*pod\\, n. (Zool.)\n   One of the Amphipoda.\n");
  settings_.unit = "entry";
  settings_.label = "subject";
  const std::vector<TextAndLabel> entries = Read();
  ASSERT_EQ(entries.size(), 3u);
  EXPECT_EQ(entries[0].second, "Bot.");
  EXPECT_THAT(entries[0].first, HasSubstr("2. Its root."));
  EXPECT_EQ(entries[1].second, kNoLabel);
  EXPECT_EQ(entries[2].second, "Zool.");
  settings_.unlabelled = "leave_out";
  EXPECT_EQ(Read().size(), 2u);
  ASSERT_EQ(left_over_.size(), 1u);
  EXPECT_EQ(left_over_[0].samples, 1u);
}

TEST_F(SampleReaderTest, PatternsNameSourcesAndRareLabelsJoin) {
  // Broken: the pattern's group is not the label, or keep_labels keeps others than the most common.
  Write("data.txt", "a [X]\nb [Y]\nc [X]\nd [Z]\ne [Y]\nf [X]\n");
  settings_.label_pattern = R"(\[(\w)\]$)";
  settings_.keep_labels = 1;
  std::vector<std::string> labels;
  for (const TextAndLabel& one : Read()) labels.push_back(one.second);
  EXPECT_THAT(labels, ElementsAre("X", "other", "X", "other", "other", "X"));
  settings_.label_pattern = "[a-z";
  EXPECT_THAT(Fault(), HasSubstr("[partition] label_pattern: '[a-z' is not a regular expression"));
  settings_.label_pattern = "(a)(b)";
  EXPECT_THAT(Fault(), HasSubstr("has 2 groups"));
}

TEST_F(SampleReaderTest, FilesAndFoldersAreKeys) {
  // Broken: an author's or writer's folder is no natural key, or hidden files are data.
  Write("set/b/2.txt", "two");
  Write("set/a/1.txt", "one\n");
  Write("set/.git/x.txt", "hidden");
  settings_.path = directory_.File("set");
  settings_.unit = "document";
  settings_.label = "folder";
  EXPECT_THAT(Read(), ElementsAre(Pair("one\n", "a"), Pair("two", "b")));
  settings_.label = "file";
  EXPECT_THAT(Read(), ElementsAre(Pair("one\n", "1.txt"), Pair("two", "2.txt")));
  settings_.label = "fiel";
  EXPECT_THAT(Fault(), HasSubstr("did you mean \"file\""));
}

TEST_F(SampleReaderTest, LinesOfJsonHaveNestedLabels) {
  // Broken: a label under "a.b" is not found, or a wrong line is not named.
  Write("data.jsonl",
        "{\"text\":\"x\",\"meta\":{\"kind\":10}}\n\n{\"text\":\"y\",\"meta\":{\"kind\":9}}\n"
        "{\"text\":\"z\"}\n");
  settings_.path = directory_.File("data.jsonl");
  settings_.label = "meta.kind";
  std::vector<std::string> labels;
  for (const TextAndLabel& one : Read()) labels.push_back(one.second);
  EXPECT_THAT(labels, ElementsAre("10", "9", kNoLabel));
  settings_.scheme = "continuous";
  EXPECT_THAT(Fault(), HasSubstr("data.jsonl:4: scheme 'continuous' needs a number"));
  settings_.scheme = "iid";
  Write("data.jsonl", "{\"text\":\"x\"}\n{\"body\":\"y\"}\n");
  EXPECT_THAT(Fault(), HasSubstr("data.jsonl:2: has no text under 'text'"));
  Write("data.jsonl", "{\"text\":\n");
  EXPECT_THAT(Fault(), HasSubstr("data.jsonl:1: is not a line of JSON"));
}

TEST_F(SampleReaderTest, ArraysAreRowsWithNumbers) {
  // Broken: rows and labels are taken apart. Labels stand in the order of their numbers.
  Write("set/features.npy", NpyHeaderText("<f4", {3, 2}) + std::string("AAAABBBBCCCCDDDDEEEEFFFF"));
  Write("set/labels.npy", NpyHeaderText("<i2", {3}) + std::string("\x0a\0\xff\xff\x0a\0", 6));
  settings_.path = directory_.File("set");
  const absl::StatusOr<SampleSet> set = ReadSamples(files_, settings_);
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_THAT(set->labels, ElementsAre("-1", "10"));
  EXPECT_EQ(set->Text(set->samples[1]), "CCCCDDDD");
  EXPECT_EQ(set->labels[set->samples[1].label], "-1");
  EXPECT_EQ(set->row_shape, (std::vector<uint64_t>{2}));
  Write("set/labels.npy", NpyHeaderText("<i2", {2}) + std::string("\x0a\0\xff\xff", 4));
  EXPECT_THAT(Fault(), HasSubstr("must hold one number for each of the 3 rows"));
  Write("set/labels.npy", NpyHeaderText("<f4", {3}) + std::string(12, '\0'));
  EXPECT_THAT(Fault(), HasSubstr("labels are whole numbers"));
  Write("set/labels.npy", NpyHeaderText("<i4", {3}) + std::string(11, '\0'));
  EXPECT_THAT(Fault(), HasSubstr("its shape needs 12 bytes, and there are 11"));
  Write("set/labels.npy", "no array");
  EXPECT_THAT(Fault(), HasSubstr("it is not a .npy file"));
}

TEST_F(SampleReaderTest, NothingIsNoDataSet) {
  // Broken: an empty or absent file is dealt out as no samples at all.
  EXPECT_THAT(Fault(), HasSubstr("does not exist"));
  Write("data.txt", "\n\n");
  EXPECT_THAT(Fault(), HasSubstr("holds no sample"));
}

TEST(NpyFileTest, HeaderIsNumPys) {
  // Broken: numpy.load does not read what a party gets. The text is what numpy.save writes.
  const std::string header = NpyHeaderText("<f4", {3, 28, 28});
  EXPECT_EQ(header.size() % 64, 0u);
  EXPECT_THAT(header,
              HasSubstr("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 28, 28), }"));
  EXPECT_THAT(NpyHeaderText("<i8", {5}), HasSubstr("'shape': (5,), }"));
  const absl::StatusOr<NpyHeader> read = ReadNpyHeader(header + std::string(3 * 28 * 28 * 4, 'x'));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->row_bytes(), 28u * 28u * 4u);
}

// Would break: a misspelt label deals everything as one label, and nobody hears of it.
TEST_F(SampleReaderTest, ALabelThatNoRecordHasIsRefusedByName) {
  settings_.path = directory_.File("data.jsonl");
  settings_.label = "lable";
  Write("data.jsonl",
        "{\"text\": \"one\", \"label\": \"a\"}\n{\"text\": \"two\", \"label\": \"b\"}\n");
  for (const char* unlabelled : {"keep", "leave_out"}) {
    settings_.unlabelled = unlabelled;
    const absl::Status refused = ReadSamples(files_, settings_).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(
        std::string(refused.message()),
        HasSubstr("none of its 2 records has the field 'lable' that [partition] label names; "
                  "did you mean 'label'?"));
  }
  settings_.label = "label";
  settings_.unlabelled = "keep";
  Write("data.jsonl", "{\"text\": \"one\", \"label\": \"a\"}\n{\"text\": \"two\"}\n");
  const absl::StatusOr<SampleSet> set = ReadSamples(files_, settings_);
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_EQ(set->unlabelled, 1u) << "it is told, and counts as none";
}

}  // namespace
}  // namespace atolld
