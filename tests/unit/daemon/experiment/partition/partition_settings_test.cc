// Would break: a key of [partition] is passed over, or a wrong one is not shown where it stands.
#include "daemon/experiment/partition/partition_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/unit/daemon/env/temporary_directory.h"

namespace atolld {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

class PartitionSettingsTest : public ::testing::Test {
 protected:
  absl::StatusOr<PartitionSettings> Load(const std::string& text) {
    std::ofstream(directory_.File("x.toml")) << text;
    return LoadPartition(directory_.File("x.toml"));
  }
  std::string Fault(const std::string& partition) {
    const std::string text = "[data]\npath = \"d.txt\"\n[partition]\n" + partition;
    return std::string(Load(text).status().message());
  }
  TemporaryDirectory directory_;
};

TEST_F(PartitionSettingsTest, EveryKeyIsRead) {
  // Broken: a file says one thing and the partition is another. Other sections are others'.
  const auto read = Load(R"([experiment]
name = "trial"
seed = 7
[run]
peers = 4
[data]
path = "d.jsonl"
kind = "jsonl"
field = "body"
[partition]
scheme = "inner_dirichlet"
parties = 12
label = "kind"
unlabelled = "leave_out"
keep_labels = 9
alpha = 0.25
sizes = "log_normal"
sigma = 0.5
min_samples = 3
validation = 0.125
)");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->name, "trial");
  EXPECT_EQ(read->seed, 7u);
  EXPECT_EQ(read->path, directory_.File("d.jsonl"));
  EXPECT_EQ(read->field, "body");
  EXPECT_EQ(read->parties, 12u);
  EXPECT_EQ(read->alpha, 0.25);
  EXPECT_EQ(read->fewest(), 3u);
  for (const char* line : {"scheme = \"inner_dirichlet\"", "label = \"kind\"", "keep_labels = 9",
                           "unlabelled = \"leave_out\"", "sizes = \"log_normal\"", "sigma = 0.5",
                           "validation = 0.125", "seed = 7"}) {
    EXPECT_THAT(read->Text(), HasSubstr(line));
  }
}

TEST_F(PartitionSettingsTest, FaultsNameTheirLineAndWhatIsRight) {
  // Broken: somebody looks for a mistake in the wrong line, or is not told what would be right.
  EXPECT_THAT(Fault("parties = 2\nalhpa = 1\n"),
              EndsWith("x.toml:5: unknown key 'alhpa' in [partition]; did you mean 'alpha'?"));
  EXPECT_THAT(Fault("parties = 2\nscheme = \"dirichlett\"\n"), HasSubstr("x.toml:5: "));
  EXPECT_THAT(Fault("parties = 0\n"), HasSubstr("x.toml:4: [partition] parties must be"));
  EXPECT_THAT(Fault("scheme = \"iid\"\n"), HasSubstr("[partition] parties is missing"));
  EXPECT_THAT(Fault("parties = 2\nscheme = \"iid\"\nalpha = 1.0\n"),
              EndsWith("x.toml:6: [partition] alpha has no meaning with scheme 'iid'"));
  EXPECT_THAT(Fault("parties = 2\nlabel = \"x\"\nlabel_pattern = \"(x)\"\n"),
              HasSubstr("leave one of them out"));
  EXPECT_THAT(Fault("parties = 2\nscheme = \"continuous\"\nsigma = 2.0\n"),
              HasSubstr("x.toml:6: [partition] sigma is from 0"));
  EXPECT_THAT(Fault("parties = \n"), HasSubstr("x.toml:4: "));
  EXPECT_THAT(std::string(Load("[data]\npath = \"d\"\n").status().message()),
              HasSubstr("there is no [partition]"));
  EXPECT_THAT(std::string(Load("[partition]\nparties = 2\n").status().message()),
              HasSubstr("[data] path is missing"));
  EXPECT_THAT(std::string(LoadPartition("/none/such.toml").status().message()),
              HasSubstr("/none/such.toml"));
}

TEST_F(PartitionSettingsTest, TheShippedExampleIsValid) {
  // Broken: the command of docs/experiments.md is refused.
  const std::string path = absl::StrCat(ATOLL_EXPERIMENTS, "/gcide_subjects.toml");
  const absl::StatusOr<PartitionSettings> read = LoadPartition(path);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->label, "subject");
  EXPECT_THAT(read->path, EndsWith("build/data/gcide.txt"));
}

}  // namespace
}  // namespace atolld
