#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "daemon/config/config.h"

namespace atolld {
namespace {

class ForeignConfigTest : public ::testing::Test {
 protected:
  ForeignConfigTest() {
    folder_ = std::filesystem::temp_directory_path() /
              absl::StrCat("atoll-foreign-config-", getpid(), "-",
                           ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(folder_);
    std::ofstream(folder_ / "model.pt") << "abc";
    std::ofstream(folder_ / "rows.npy") << "rows";
  }
  ~ForeignConfigTest() override { std::filesystem::remove_all(folder_); }

  absl::StatusOr<Config> Load(const std::string& text, ConfigUse use) {
    const std::string path = (folder_ / "x.toml").string();
    std::ofstream(path) << text;
    return LoadConfig(path, use);
  }

  std::string ErrorOf(const std::string& text, ConfigUse use) {
    const absl::StatusOr<Config> config = Load(text, use);
    return absl::StrReplaceAll(config.status().message(), {{folder_.string() + "/", ""}});
  }

  std::filesystem::path folder_;
};

constexpr char kScript[] = "[model]\nkind = \"torchscript\"\n";
constexpr char kExternal[] = "[model]\nkind = \"external\"\n";

TEST_F(ForeignConfigTest, SaysWhatAKindLacksOrDoesNotTake) {
  // Broken: a key would be taken and have no effect, or a run would start that cannot train.
  struct Case {
    std::string text, message;
    ConfigUse use = ConfigUse::kAny;
  };
  const std::vector<Case> cases = {
      {absl::StrCat(kExternal, "layers = 4\n"),
       "x.toml:3: [model] layers is not for a model of kind 'external', which its worker alone "
       "describes"},
      {absl::StrCat(kScript, "file = \"model.pt\"\nwidth = 64\n"),
       "x.toml:4: [model] width is not for a model of kind 'torchscript', which is whatever its "
       "file holds"},
      {"[model]\nfile = \"model.pt\"\n",
       "x.toml:2: [model] file is not for a model of kind 'gpt', which is no file; 'torchscript' "
       "is"},
      {kExternal,
       "x.toml:1: [worker] program is missing: with [model] kind 'external' it is what trains",
       ConfigUse::kLocal},
      {absl::StrCat(kScript, "[coordinator]\ndir = \"c\"\n"),
       "x.toml:1: [model] file is missing: a model of kind 'torchscript' is that file",
       ConfigUse::kCoordinator},
      {absl::StrCat(kScript, "file = \"none.pt\"\n"),
       "x.toml:3: model.file 'none.pt' is no file that exists"},
      {absl::StrCat(kScript, "file = \"model.pt\"\n"),
       "x.toml:1: [data] path is missing: the text to train on, a file or a folder",
       ConfigUse::kLocal},
  };
  for (const Case& one : cases) EXPECT_EQ(ErrorOf(one.text, one.use), one.message) << one.text;
}

TEST_F(ForeignConfigTest, AFileIsNamedByItsBytes) {
  // Broken: peers would train different files under one run.
  const std::string text =
      absl::StrCat(kScript, "file = \"model.pt\"\n[data]\npath = \"rows.npy\"\n");
  absl::StatusOr<Config> config = Load(text, ConfigUse::kLocal);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->model.file, (folder_ / "model.pt").string());
  config->run.id = "r";
  const v1::RunSpec spec = MakeRunSpec(*config);
  EXPECT_EQ(spec.model().kind(), "torchscript");
  EXPECT_EQ(absl::BytesToHexString(spec.model().file_digest()),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");  // of "abc"
  EXPECT_EQ(spec.model().file(), "");  // a path of one machine
  EXPECT_EQ(spec.model().context(), 1u);
  EXPECT_EQ(spec.model().layers(), 0u);
  EXPECT_EQ(spec.data().kind(), "arrays");
  EXPECT_EQ(WorkerProgramOf("torchscript"), "atoll-worker");
}

TEST_F(ForeignConfigTest, AWorkerOfOnesOwnNeedsNoData) {
  // Broken: a trainer that makes or fetches its own data could not be run.
  const std::string text = absl::StrCat(kExternal, "[worker]\nprogram = \"train.py\"\n");
  absl::StatusOr<Config> config = Load(text, ConfigUse::kLocal);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->worker.program, (folder_ / "train.py").string());
  config->run.id = "r";
  EXPECT_EQ(MakeRunSpec(*config).data().kind(), "external");
  EXPECT_EQ(ErrorOf(absl::StrCat(text, "[data]\npath = \"none\"\n"), ConfigUse::kLocal),
            "x.toml:6: data.path 'none' does not exist");
}

TEST_F(ForeignConfigTest, WrittenConfigsOfBothKindsReadBack) {
  // Broken: `atoll local` would write its daemons configs that they refuse.
  for (const std::string& text :
       {absl::StrCat(kExternal, "[worker]\nprogram = \"train.py\"\n"),
        absl::StrCat(kScript, "file = \"model.pt\"\n[data]\npath = \"rows.npy\"\n")}) {
    const absl::StatusOr<Config> config = Load(text, ConfigUse::kLocal);
    ASSERT_TRUE(config.ok()) << config.status();
    const std::string written = FormatConfig(*config);
    const absl::StatusOr<Config> read = Load(written, ConfigUse::kLocal);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(FormatConfig(*read), written);
  }
}

TEST_F(ForeignConfigTest, AStubNeedsNoDataAndHasItsOwnWorker) {
  // Broken: a benchmark of the system would need a text to train on, or start libtorch's worker.
  const std::string text =
      "[model]\nkind = \"stub\"\nparameters = 5000\n[inner]\nstep_time = \"20ms\"\n"
      "[peer]\nid = \"p\"\ndir = \"p\"\n";
  for (const ConfigUse use : {ConfigUse::kLocal, ConfigUse::kPeer}) {
    EXPECT_EQ(ErrorOf(text, use), "");
  }
  EXPECT_EQ(ErrorOf(text + "[data]\npath = \"nothing.txt\"\n", ConfigUse::kPeer),
            "x.toml:10: data.path 'nothing.txt' does not exist");
  absl::StatusOr<Config> config = Load(text, ConfigUse::kPeer);
  ASSERT_TRUE(config.ok()) << config.status();
  config->run.id = "r";
  const v1::RunSpec spec = MakeRunSpec(*config);
  EXPECT_EQ(spec.model().parameters(), 5000u);
  EXPECT_EQ(spec.inner().step_microseconds(), 20000u);
  EXPECT_EQ(spec.data().kind(), "none");
  EXPECT_EQ(WorkerProgramOf(spec.model().kind()), "atoll-stub-worker");
  EXPECT_EQ(WorkerProgramOf("gpt"), "atoll-worker");
}

}  // namespace
}  // namespace atolld
