// Would break: a run with a tokenizer or a program of its own could be joined by those alone who
// were handed its files, or a peer would train with files that are not the run's.
#include "daemon/peer/run_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/replica/state/layout.h"
#include "membership/history/run_files.h"
#include "tests/sim/sim_world.h"
#include "tests/unit/daemon/replica/state/test_run.h"
#include "tests/unit/daemon/replica/transfer/donor_process.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

constexpr char kOwn[] = "/own/tokenizer.json";

class PeerFilesTest : public ::testing::Test {
 protected:
  PeerFilesTest() {
    spec_ = run_.Genesis().spec();
    spec_.mutable_data()->set_tokenizer("file");
  }

  Env On(const std::string& name) {
    if (added_.emplace(name, true).second) world_.AddProcess(name);
    return world_.process(name).env();
  }

  void Write(const std::string& name, const std::string& path, const std::string& content) {
    Files& files = On(name).files;
    CHECK_OK(files.MakeDirectories(DirectoryOf(path)));
    CHECK_OK(WriteFileDurably(files, path, BytesOf(content)));
  }

  std::string Read(const std::string& name, const std::string& path) {
    return ReadFile(On(name).files, path, 1 << 20).value_or("");
  }

  std::unique_ptr<RunFiles> Make(const std::string& name, const RunFiles::Own& own) {
    auto files = std::make_unique<RunFiles>(On(name), "/r", own, [this] { ++changes_; });
    files->Load();
    return files;
  }

  // A peer with its own tokenizer that has made version 0, and gives from its folder.
  void AddMaker() {
    Write("maker", kOwn, "{}");
    Write("maker", "/own/tokenizer_config.json", "eos");
    maker_ = Make("maker", {kOwn, "", false});
    maker_->List(&spec_);
    run_.files.assign(spec_.files().begin(), spec_.files().end());
    CHECK_OK(CreateReplica(On("maker").files, "/r", run_).status());
    maker_->Follow(spec_, true);
    world_.RunFor(absl::Seconds(1));
    donor_ = std::make_unique<DonorProcess>(On("maker"), "maker", nullptr, DonorSettings{});
  }

  bool RunUntilReady(const RunFiles& files) {
    return world_.RunUntil([&] { return files.WaitsFor().empty(); }, absl::Minutes(1));
  }

  SimWorld world_{7};
  TestRun run_;
  v1::RunSpec spec_;
  std::map<std::string, bool> added_;
  int changes_ = 0;
  std::unique_ptr<RunFiles> maker_;
  std::unique_ptr<DonorProcess> donor_;
};

TEST_F(PeerFilesTest, WhoeverMakesVersion0ListsWhatItsWorkerReads) {
  Write("maker", kOwn, "{}");
  Write("maker", "/own/tokenizer_config.json", "eos");
  Write("maker", "/own/chat_template.jinja", "{{ messages }}");
  Write("maker", "/own/notes.txt", "nobody reads it");
  Write("maker", "/own/model.pt", "program");
  const auto files = Make("maker", {"/own", "/own/model.pt", false});
  files->List(&spec_);
  ASSERT_EQ(3, spec_.files_size());
  EXPECT_EQ("tokenizer.json", spec_.files(0).name());
  EXPECT_EQ("tokenizer_config.json", spec_.files(1).name());
  EXPECT_EQ("chat_template.jinja", spec_.files(2).name());
  EXPECT_TRUE(CheckRunFiles(spec_).ok());
  v1::RunSpec other;
  other.mutable_model()->set_kind("torchscript");
  files->List(&other);
  ASSERT_EQ(1, other.files_size());
  EXPECT_EQ(kProgramRole, other.files(0).role());
}

// Broken: peers would add up losses on different texts, or the one that has none could not
// evaluate.
TEST_F(PeerFilesTest, WhatAllEvaluateOnIsTheRuns) {
  spec_.mutable_data()->clear_tokenizer();
  spec_.mutable_data()->set_private_(true);
  spec_.mutable_data()->set_common_validation(true);
  Write("maker", "/own/common.txt", "held out");
  Write("other", "/own/common.txt", "another text");
  const auto maker = Make("maker", {"", "", false, "/own/common.txt"});
  EXPECT_EQ("", maker->WaitsFor());
  maker->List(&spec_);
  ASSERT_EQ(1, spec_.files_size());
  EXPECT_EQ(kValidationRole, spec_.files(0).role());
  EXPECT_TRUE(CheckRunFiles(spec_).ok());
  maker->Follow(spec_, true);
  world_.RunFor(absl::Seconds(1));
  EXPECT_EQ("", maker->places().validation) << "its own serves";
  const auto other = Make("other", {"", "", false, "/own/common.txt"});
  other->Follow(spec_, true);
  world_.RunFor(absl::Seconds(1));
  EXPECT_THAT(other->WaitsFor(), HasSubstr("fetches the run's common.txt"));
  EXPECT_THAT(other->places().validation, HasSubstr("validation/common.txt"));
}

TEST_F(PeerFilesTest, AJoinerWaitsForVersion0AndGetsAllOfIt) {
  const auto joiner = Make("joiner", {});
  joiner->Follow(spec_, false);
  EXPECT_THAT(joiner->WaitsFor(), HasSubstr("comes with version 0"));
  AddMaker();
  EXPECT_EQ("", maker_->WaitsFor());
  EXPECT_EQ("", maker_->places().tokenizer) << "its own serves";
  joiner->Follow(spec_, true);
  world_.RunFor(absl::Seconds(1));
  EXPECT_THAT(joiner->WaitsFor(), HasSubstr("fetches the run's tokenizer.json"));
  joiner->SetDonors({"nobody:1"}, absl::Seconds(3));
  world_.RunFor(absl::Seconds(10));
  joiner->SetDonors({"maker:1"}, absl::Seconds(3));
  ASSERT_TRUE(RunUntilReady(*joiner)) << joiner->WaitsFor();
  EXPECT_EQ("/r/files/tokenizer/tokenizer.json", joiner->places().tokenizer);
  EXPECT_EQ("{}", Read("joiner", "/r/files/tokenizer/tokenizer.json"));
  EXPECT_EQ("eos", Read("joiner", "/r/files/tokenizer/tokenizer_config.json"));
  EXPECT_GT(changes_, 0);
}

// After a restart with its own gone, and nobody to ask.
TEST_F(PeerFilesTest, ACopyStandsInForAnOwnFileThatIsGone) {
  AddMaker();
  const auto again = Make("maker", {"/moved/tokenizer.json", "", false});
  again->Follow(spec_, true);
  ASSERT_TRUE(RunUntilReady(*again)) << again->WaitsFor();
  EXPECT_EQ("/r/files/tokenizer/tokenizer.json", again->places().tokenizer);
  // One that was changed is no copy.
  Write("maker", "/r/files/tokenizer/tokenizer.json", "[]");
  const auto changed = Make("maker", {});
  changed->Follow(spec_, true);
  world_.RunFor(absl::Seconds(1));
  EXPECT_THAT(changed->WaitsFor(), HasSubstr("fetches"));
}

// The end of text is named beside the tokenizer: with another the data would be another.
TEST_F(PeerFilesTest, WhatLiesBesideAnOwnTokenizerMustBeTheRuns) {
  AddMaker();
  Write("bare", kOwn, "{}");
  const auto bare = Make("bare", {kOwn, "", false});
  bare->Follow(spec_, true);
  bare->SetDonors({"maker:1"}, absl::Seconds(3));
  ASSERT_TRUE(RunUntilReady(*bare)) << bare->WaitsFor();
  EXPECT_EQ("/r/files/tokenizer/tokenizer.json", bare->places().tokenizer);
  EXPECT_EQ(1u, world_.LogCount("what lies beside /own/tokenizer.json differs"));
  // Another tokenizer was chosen by somebody: the worker says so.
  Write("other", kOwn, "[]");
  const auto other = Make("other", {kOwn, "", false});
  other->Follow(spec_, true);
  EXPECT_EQ("", other->WaitsFor());
  EXPECT_EQ("", other->places().tokenizer);
}

TEST_F(PeerFilesTest, WhatIsTooLargeIsAskedOfTheUser) {
  AddMaker();
  spec_.mutable_files(0)->set_bytes(kLargestRunFile + 1);
  const auto joiner = Make("joiner", {});
  joiner->Follow(spec_, true);
  joiner->SetDonors({"maker:1"}, absl::Seconds(3));
  world_.RunFor(absl::Seconds(5));
  EXPECT_THAT(joiner->WaitsFor(), HasSubstr("larger than the 64 MiB"));
  EXPECT_THAT(joiner->WaitsFor(), HasSubstr("--tokenizer"));
  // Nothing of it is needed where the data brings its tokens.
  const auto prepared = Make("prepared", {"", "", true});
  prepared->Follow(spec_, true);
  EXPECT_EQ("", prepared->WaitsFor());
}

}  // namespace
}  // namespace atolld
