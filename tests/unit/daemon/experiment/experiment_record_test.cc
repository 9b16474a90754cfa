// Would break: an experiment goes on over other data or other settings than it was begun with, or
// loses its finished runs when it grows.
#include "daemon/experiment/experiment_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compression/base/check.h"
#include "daemon/cli/run_metrics.h"
#include "daemon/env/posix_files.h"
#include "daemon/experiment/experiment_file.h"
#include "daemon/experiment/experiment_folder.h"
#include "tests/unit/daemon/env/temporary_directory.h"

namespace atolld {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kRunSections[] =
    "[data]\npath = \"party-{peer}.txt\"\nprivate = true\n[run]\nrounds = 4\n[model]\n"
    "kind = \"stub\"\nparameters = 100\n";

class ExperimentRecordTest : public ::testing::Test {
 protected:
  ExperimentRecordTest() : dir_(folder_.File("out")) {
    Write("party-1.txt", "one");
    Write("party-2.txt", "two");
    std::filesystem::create_directories(dir_ + "/runs");
  }

  void Write(const std::string& name, const std::string& text) {
    std::ofstream(folder_.File(name)) << text;
  }

  // As a finished run leaves it.
  void Finish(const std::string& id) {
    const RunPaths paths = PathsOf(dir_, id);
    std::filesystem::create_directories(paths.dir);
    std::ofstream(paths.report) << R"({"state_digest": "ab"})";
    std::ofstream(absl::StrCat(paths.dir, "/", kMetricsFile)) << "";
  }

  // Begins the experiment, or goes on with it: the ids of its runs.
  absl::StatusOr<std::vector<std::string>> Open(const std::string& text) {
    ExperimentRecord record = *ReadRecord(files_, dir_);
    absl::StatusOr<Experiment> experiment =
        ParseExperiment("[experiment]\nparties = 2\n" + text, "/x/try.toml", folder_.path());
    CHECK_OK(experiment.status());
    experiment->begun = IdsOf(record);
    std::vector<RunPlan> plans;
    std::vector<std::string> ids;
    for (const uint64_t seed : experiment->seeds) {
      for (size_t i = 0; i < experiment->settings.size(); ++i) {
        absl::StatusOr<RunPlan> plan = PlanRun(*experiment, i, seed, std::nullopt);
        CHECK_OK(plan.status());
        ids.push_back(plan->id);
        plans.push_back(*std::move(plan));
      }
    }
    absl::Status status = TakeData(files_, dir_, plans, &record);
    if (status.ok()) status = TakeRuns(files_, dir_, *experiment, plans, &record);
    if (!status.ok()) return status;
    CHECK_OK(WriteRecord(files_, dir_, record));
    return ids;
  }

  const TemporaryDirectory folder_;
  const std::string dir_;
  PosixFiles files_;
};

std::string Settings(const std::vector<std::pair<std::string, double>>& rates) {
  std::string text = kRunSections;
  for (const auto& [name, rate] : rates) {
    absl::StrAppend(&text, "[[setting]]\nname = \"", name, "\"\n\"outer.learning_rate\" = ", rate,
                    "\n");
  }
  return text;
}

TEST_F(ExperimentRecordTest, MayGrowWithoutLosingWhatIsFinished) {
  EXPECT_THAT(*Open("seeds = [1]\n" + Settings({{"slow", 0.5}, {"fast", 0.9}})),
              ElementsAre("01-slow-seed-1", "02-fast-seed-1"));
  Finish("01-slow-seed-1");
  Finish("02-fast-seed-1");
  // A comment, a seed, a target, and a setting before the others.
  const auto grown = Open("# more\nseeds = [1, 2]\ntarget_loss = 2.0\n" +
                          Settings({{"none", 0.1}, {"slow", 0.5}, {"fast", 0.9}}));
  ASSERT_TRUE(grown.ok()) << grown.status();
  EXPECT_THAT(*grown, ElementsAre("01-none-seed-1", "01-slow-seed-1", "02-fast-seed-1",
                                  "01-none-seed-2", "02-slow-seed-2", "03-fast-seed-2"));
}

TEST_F(ExperimentRecordTest, ABegunRunKeepsItsConfig) {
  ASSERT_TRUE(Open(Settings({{"slow", 0.5}, {"fast", 0.9}})).ok());
  Finish("01-slow-seed-1");
  EXPECT_TRUE(Open(Settings({{"slow", 0.5}, {"fast", 0.8}})).ok()) << "fast has not begun";
  const absl::Status changed = Open(Settings({{"slow", 0.4}, {"fast", 0.8}})).status();
  EXPECT_EQ(changed.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(changed.message()),
              HasSubstr("slow, seed 1 has begun with `learning_rate = 0.5` there, `learning_rate "
                        "= 0.4` here; give the setting another name"));
}

TEST_F(ExperimentRecordTest, OtherDataIsRefusedByParty) {
  const std::string text = Settings({{"slow", 0.5}});
  ASSERT_TRUE(Open(text).ok());
  Write("party-2.txt", "2.00");
  ASSERT_TRUE(Open(text).ok()) << "no run has begun with the data of then";
  Finish("01-slow-seed-1");
  ASSERT_TRUE(Open(text).ok());
  Write("party-2.txt", "TWO!!");
  const absl::Status changed = Open("seeds = [1, 2]\n" + text).status();
  EXPECT_EQ(changed.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(changed.message()),
              HasSubstr("party 2's data is not what the experiment"));
  EXPECT_THAT(std::string(changed.message()), HasSubstr("party-2.txt has other bytes (SHA-256 "));
  Write("party-2.txt", "2.00");
  EXPECT_TRUE(Open("seeds = [1, 2]\n" + text).ok()) << "it was put back";
}

TEST_F(ExperimentRecordTest, AFolderIsAllItsFiles) {
  const std::string data = folder_.File("corpus");
  std::filesystem::create_directories(data + "/deep");
  std::ofstream(data + "/deep/a.txt") << "a";
  std::string text = Settings({{"slow", 0.5}});
  text.replace(text.find("party-{peer}.txt\"\nprivate = true"),
               std::string("party-{peer}.txt\"\nprivate = true").size(), "corpus\"");
  ASSERT_TRUE(Open(text).ok());
  Finish("01-slow-seed-1");
  std::ofstream(data + "/.note") << "hidden files are no data";
  ASSERT_TRUE(Open(text).ok());
  std::ofstream(data + "/b.txt") << "b";
  EXPECT_THAT(std::string(Open(text).status().message()), HasSubstr("corpus/b.txt is new"));
  std::filesystem::remove(data + "/b.txt");
  std::filesystem::remove(data + "/deep/a.txt");
  EXPECT_THAT(std::string(Open(text).status().message()), HasSubstr("corpus/deep/a.txt is gone"));
}

TEST_F(ExperimentRecordTest, ADamagedRecordIsSaid) {
  std::ofstream(dir_ + "/" + kRecordFile) << R"({"runs": {"x": 1}, "data": {}})";
  const absl::Status status = ReadRecord(files_, dir_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("record.json is damaged"));
}

}  // namespace
}  // namespace atolld
