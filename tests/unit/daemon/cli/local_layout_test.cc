#include "daemon/cli/local_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "daemon/config/config_text.h"
#include "daemon/env/posix_files.h"
#include "daemon/env/posix_folder_lock.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

class LocalLayoutTest : public ::testing::Test {
 protected:
  LocalLayoutTest()
      : root_(std::filesystem::temp_directory_path() /
              absl::StrCat("atoll-layout-", getpid(), "-",
                           ::testing::UnitTest::GetInstance()->current_test_info()->name())),
        dir_((root_ / "run").string()) {
    std::filesystem::create_directories(root_);
    std::ofstream(root_ / "text.txt") << "text";
    config_.run.id = "r";
    config_.run.peers = 2;
    config_.data.path = (root_ / "text.txt").string();
    config_.peer.id = "of-the-file";
  }
  ~LocalLayoutTest() override { std::filesystem::remove_all(root_); }

  PosixFiles files_;
  std::filesystem::path root_;
  std::string dir_;
  Config config_;
};

TEST_F(LocalLayoutTest, PeersHaveDataAndPartiesOfTheirOwn) {
  // Broken: all parties of an experiment would train on one party's data, or host the same ones; a
  // ramp would find no folder for those that come later.
  std::ofstream(root_ / "party-001.txt") << "text";
  std::ofstream(root_ / "party-002.txt") << "text";
  std::ofstream(root_ / "party-003.txt") << "text";
  config_.data.path = (root_ / "party-{peer}.txt").string();
  config_.data.is_private = true;
  config_.parties.hosted = 5;
  const auto adjust = [](const LocalProcess& process, Config* config) {
    if (process.id == "peer-2") config->machine.up_cap = 1000000;
  };
  const auto layout = MakeLocalLayout(files_, config_, dir_, 7171, "/bin/atolld", adjust, 3);
  ASSERT_TRUE(layout.ok()) << layout.status();
  ASSERT_EQ(layout->processes.size(), 4u);
  for (uint32_t i = 1; i <= 3; ++i) {
    const auto peer = LoadConfig(absl::StrCat(dir_, "/peer-", i, "/config.toml"), ConfigUse::kPeer);
    ASSERT_TRUE(peer.ok()) << peer.status();
    EXPECT_EQ(peer->data.path, (root_ / absl::StrCat("party-00", i, ".txt")).string());
    EXPECT_EQ(peer->parties.first, 1 + (i - 1) * 5);
    EXPECT_EQ(peer->machine.up_cap, i == 2 ? 1000000u : 0u);
    EXPECT_EQ(peer->run.peers, 2u);
  }
  ASSERT_TRUE(WritePeersFile(files_, *layout).ok());
  EXPECT_TRUE(OpenLocalLayout(files_, config_, dir_, "/bin/atolld", adjust).ok());
  EXPECT_FALSE(OpenLocalLayout(files_, config_, dir_, "/bin/atolld").ok());
}

TEST_F(LocalLayoutTest, EveryProcessGetsAConfigThatItsDaemonTakes) {
  // Broken: `atoll local` would start daemons that refuse their configs, or two with one name.
  const absl::StatusOr<LocalLayout> layout =
      MakeLocalLayout(files_, config_, dir_, 7171, "/bin/atolld");
  ASSERT_TRUE(layout.ok()) << layout.status();
  ASSERT_EQ(layout->processes.size(), 3u);
  const auto coordinator =
      LoadConfig(absl::StrCat(dir_, "/coordinator/config.toml"), ConfigUse::kCoordinator);
  ASSERT_TRUE(coordinator.ok()) << coordinator.status();
  EXPECT_EQ(coordinator->coordinator.address, "127.0.0.1:7171");
  EXPECT_EQ(coordinator->coordinator.listen, "");
  EXPECT_EQ(coordinator->coordinator.dir, absl::StrCat(dir_, "/coordinator"));
  EXPECT_EQ(coordinator->run.peers, 2u);
  const auto peer = LoadConfig(absl::StrCat(dir_, "/peer-2/config.toml"), ConfigUse::kPeer);
  ASSERT_TRUE(peer.ok()) << peer.status();
  EXPECT_EQ(peer->peer.id, "peer-2");
  EXPECT_EQ(peer->peer.dir, absl::StrCat(dir_, "/peer-2"));
  EXPECT_EQ(peer->peer.listen, "127.0.0.1:0");
  EXPECT_EQ(layout->processes[2].command,
            (std::vector<std::string>{"/bin/atolld", "peer", "--config",
                                      absl::StrCat(dir_, "/peer-2/config.toml")}));
}

TEST_F(LocalLayoutTest, AProcessesConfigCanBeAdjusted) {
  // Broken: a benchmark could not put a relay between a peer and the others.
  const auto adjust = [](const LocalProcess& process, Config* config) {
    if (process.id == "peer-1") config->peer.advertise = "127.0.0.1:7272";
  };
  const absl::StatusOr<LocalLayout> layout =
      MakeLocalLayout(files_, config_, dir_, 7171, "/bin/atolld", adjust);
  ASSERT_TRUE(layout.ok()) << layout.status();
  const auto advertised = [&](const std::string& peer) {
    return LoadConfig(absl::StrCat(dir_, "/", peer, "/config.toml"), ConfigUse::kPeer)
        ->peer.advertise;
  };
  EXPECT_EQ(advertised("peer-1"), "127.0.0.1:7272");
  EXPECT_EQ(advertised("peer-2"), "");
}

TEST_F(LocalLayoutTest, TheHttpPortIsTheCoordinators) {
  // Broken: the peers of a local run would all want the one port that its config names.
  config_.http.listen = "127.0.0.1:7181";
  const absl::StatusOr<LocalLayout> layout =
      MakeLocalLayout(files_, config_, dir_, 7171, "/bin/atolld");
  ASSERT_TRUE(layout.ok()) << layout.status();
  const auto listen = [&](const std::string& name, ConfigUse use) {
    return LoadConfig(absl::StrCat(dir_, "/", name, "/config.toml"), use)->http.listen;
  };
  EXPECT_EQ(listen("coordinator", ConfigUse::kCoordinator), "127.0.0.1:7181");
  EXPECT_EQ(listen("peer-1", ConfigUse::kPeer), "auto");
}

TEST_F(LocalLayoutTest, AFolderThatHoldsAnythingIsLeftAlone) {
  // Broken: a second run would overwrite the first one's model.
  std::filesystem::create_directories(dir_);
  std::ofstream(absl::StrCat(dir_, "/thesis.txt")) << "precious";
  EXPECT_EQ(MakeLocalLayout(files_, config_, dir_, 7171, "/bin/atolld").status().code(),
            absl::StatusCode::kAlreadyExists);
  std::ofstream(absl::StrCat(dir_, "/peers.json")) << "[]";
  EXPECT_THAT(MakeLocalLayout(files_, config_, dir_, 7171, "/bin/atolld").status().message(),
              HasSubstr("holds another run"));
  EXPECT_TRUE(std::filesystem::exists(absl::StrCat(dir_, "/thesis.txt")));
}

TEST_F(LocalLayoutTest, ARunGoesOnInItsFolderWithTheSettingsThatItHas) {
  // Broken: after Ctrl-C a run could only be begun anew; or it would go on with other settings than
  // the call asked for, without a word.
  absl::StatusOr<LocalLayout> layout = MakeLocalLayout(files_, config_, dir_, 7171, "/bin/atolld");
  ASSERT_TRUE(layout.ok()) << layout.status();
  ASSERT_TRUE(WritePeersFile(files_, *layout).ok());
  const absl::StatusOr<LocalLayout> again = OpenLocalLayout(files_, config_, dir_, "/bin/atolld");
  ASSERT_TRUE(again.ok()) << again.status();
  ASSERT_EQ(again->processes.size(), 3u);
  EXPECT_EQ(again->coordinator().address, "127.0.0.1:7171");
  EXPECT_EQ(again->processes[2].command, layout->processes[2].command);

  Config other = config_;
  other.run.id = "named-by-the-time";
  EXPECT_TRUE(OpenLocalLayout(files_, other, dir_, "/bin/atolld").ok());
  other.run.rounds = 77;
  const absl::Status refused = OpenLocalLayout(files_, other, dir_, "/bin/atolld").status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("and this call `rounds = 77"));

  const auto lock = FolderLock::Take(absl::StrCat(dir_, "/peer-1"));
  ASSERT_TRUE(lock.ok());
  const absl::StatusOr<LocalLayout> running = OpenLocalLayout(files_, config_, dir_, "/bin/atolld");
  ASSERT_TRUE(running.ok()) << running.status();
  EXPECT_EQ(running->processes[1].pid, getpid());  // it outlived the last `atoll local`
  EXPECT_EQ(running->processes[2].pid, 0);
}

TEST_F(LocalLayoutTest, ItsConfigGoesOnWithItWhereverItLies) {
  // Broken: `atoll local --dir DIR` would look for a branch's file, or for data within the folder,
  // where the run began.
  config_.run.branch = absl::StrCat(dir_, "/", kRunBranch);
  config_.data.path = absl::StrCat(dir_, "/text.txt");
  std::filesystem::create_directories(dir_);
  std::ofstream(config_.data.path) << "some text";
  std::ofstream(config_.run.branch) << "a state";
  ASSERT_TRUE(WriteRunConfig(files_, dir_, config_).ok());
  const std::string moved = absl::StrCat(dir_, "-moved");
  std::filesystem::rename(dir_, moved);
  const auto loaded = LoadConfig(absl::StrCat(moved, "/", kRunConfig), ConfigUse::kLocal);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->run.branch, absl::StrCat(moved, "/", kRunBranch));
  EXPECT_EQ(loaded->data.path, absl::StrCat(moved, "/text.txt"));
  // A branch that is prepared and has not begun is a new folder; anything else beside it is not.
  std::filesystem::remove(loaded->data.path);
  EXPECT_TRUE(CheckNewFolder(files_, moved).ok());
  std::ofstream(absl::StrCat(moved, "/thesis.txt")) << "years";
  EXPECT_THAT(std::string(CheckNewFolder(files_, moved).message()), HasSubstr("thesis.txt"));
  std::filesystem::remove(absl::StrCat(moved, "/thesis.txt"));
  std::filesystem::remove(absl::StrCat(moved, "/", kRunBranch));
  EXPECT_THAT(std::string(CheckNewFolder(files_, moved).message()), HasSubstr(kRunConfig));
}

TEST_F(LocalLayoutTest, ARunThatOthersJoinIsWhereItsConfigSays) {
  // Broken: tokens would lead to loopback, or a run that goes on would be somewhere else.
  Config open = config_;
  open.coordinator.address = "192.0.2.1:7070";
  open.coordinator.listen = "0.0.0.0:7171";
  open.peer.listen = "0.0.0.0:7200";
  open.peer.advertise = "192.0.2.1:7200";
  const absl::StatusOr<LocalLayout> layout = MakeLocalLayout(files_, open, dir_, 0, "/bin/atolld");
  ASSERT_TRUE(layout.ok()) << layout.status();
  ASSERT_TRUE(WritePeersFile(files_, *layout).ok());
  EXPECT_EQ(layout->advertised, "192.0.2.1:7070");
  EXPECT_EQ(layout->listened, "0.0.0.0:7171");
  EXPECT_EQ(layout->coordinator().address, "127.0.0.1:7171");
  const auto coordinator =
      LoadConfig(absl::StrCat(dir_, "/coordinator/config.toml"), ConfigUse::kCoordinator);
  ASSERT_TRUE(coordinator.ok()) << coordinator.status();
  EXPECT_EQ(coordinator->coordinator.address, "192.0.2.1:7070");
  EXPECT_EQ(coordinator->coordinator.listen, "0.0.0.0:7171");
  const auto peer = LoadConfig(absl::StrCat(dir_, "/peer-2/config.toml"), ConfigUse::kPeer);
  ASSERT_TRUE(peer.ok()) << peer.status();
  EXPECT_EQ(peer->coordinator.address, "127.0.0.1:7171");
  EXPECT_EQ(peer->peer.listen, "0.0.0.0:7201");
  EXPECT_EQ(peer->peer.advertise, "192.0.2.1:7201");
  // Named again or not, it is the same run.
  for (const Config& again : {open, config_}) {
    const auto opened = OpenLocalLayout(files_, again, dir_, "/bin/atolld");
    ASSERT_TRUE(opened.ok()) << opened.status();
    EXPECT_EQ(opened->advertised, "192.0.2.1:7070");
    EXPECT_EQ(opened->listened, "0.0.0.0:7171");
  }
  open.coordinator.address = "192.0.2.2:7070";
  EXPECT_THAT(std::string(OpenLocalLayout(files_, open, dir_, "/bin/atolld").status().message()),
              HasSubstr("and this call `address = \"192.0.2.2:7070\""));
}

TEST_F(LocalLayoutTest, ALockAloneIsNoRun) {
  // Broken: the lock that a new run takes on its folder would keep it from beginning there.
  std::filesystem::create_directories(dir_);
  const auto lock = FolderLock::Take(dir_);
  ASSERT_TRUE(lock.ok());
  EXPECT_TRUE(MakeLocalLayout(files_, config_, dir_, 7171, "/bin/atolld").ok());
}

TEST_F(LocalLayoutTest, PeersFileListsTheProcesses) {
  // Broken: scripts could not find a process to kill, or a person the command to start it again.
  absl::StatusOr<LocalLayout> layout = MakeLocalLayout(files_, config_, dir_, 7171, "/bin/atolld");
  ASSERT_TRUE(layout.ok());
  layout->processes[1].pid = 4711;
  ASSERT_TRUE(WritePeersFile(files_, *layout).ok());
  const auto json = nlohmann::json::parse(std::ifstream(absl::StrCat(dir_, "/peers.json")));
  EXPECT_EQ(json[0]["role"], "coordinator");
  EXPECT_EQ(json[0]["address"], "127.0.0.1:7171");
  EXPECT_EQ(json[1]["id"], "peer-1");
  EXPECT_EQ(json[1]["pid"], 4711);
  EXPECT_EQ(json[1]["dir"], "peer-1");
  EXPECT_EQ(json[1]["command"], "/bin/atolld peer --config peer-1/config.toml");
  const auto read = ReadPeersFile(files_, dir_);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->at(1).pid, 4711);
  EXPECT_EQ(read->at(1).dir, absl::StrCat(dir_, "/peer-1"));
}

TEST_F(LocalLayoutTest, AMovedRunGoesOnWhereItIsNow) {
  // Broken: the daemons of a run that was moved would work in its old folder, or refuse to start.
  const absl::StatusOr<LocalLayout> layout =
      MakeLocalLayout(files_, config_, dir_, 7171, "/bin/atolld");
  ASSERT_TRUE(layout.ok()) << layout.status();
  ASSERT_TRUE(WritePeersFile(files_, *layout).ok());
  const std::string moved = (root_ / "elsewhere").string();
  std::filesystem::rename(dir_, moved);
  const absl::StatusOr<LocalLayout> again = OpenLocalLayout(files_, config_, moved, "/bin/atolld");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->processes[2].dir, absl::StrCat(moved, "/peer-2"));
  EXPECT_EQ(ReadPeersFile(files_, moved)->at(2).dir, absl::StrCat(moved, "/peer-2"));
  const auto peer = LoadConfig(absl::StrCat(moved, "/peer-2/config.toml"), ConfigUse::kPeer);
  ASSERT_TRUE(peer.ok()) << peer.status();
  EXPECT_EQ(peer->peer.dir, absl::StrCat(moved, "/peer-2"));
  EXPECT_EQ(peer->data.path, config_.data.path);  // the user's, which did not move
  const auto coordinator =
      LoadConfig(absl::StrCat(moved, "/coordinator/config.toml"), ConfigUse::kCoordinator);
  EXPECT_EQ(coordinator->coordinator.dir, absl::StrCat(moved, "/coordinator"));
}

TEST_F(LocalLayoutTest, AMovedRunOfAnEarlierReleaseSaysWhatToChange) {
  // Broken: its configs name the old folder, where its daemons would begin an empty run.
  const auto layout = MakeLocalLayout(files_, config_, dir_, 7171, "/bin/atolld");
  ASSERT_TRUE(layout.ok()) << layout.status();
  ASSERT_TRUE(WritePeersFile(files_, *layout).ok());
  const std::string path = absl::StrCat(dir_, "/peer-1/config.toml");
  const auto config = LoadConfig(path, ConfigUse::kPeer);
  std::ofstream(path) << FormatConfig(*config);  // with absolute paths
  EXPECT_TRUE(OpenLocalLayout(files_, config_, dir_, "/bin/atolld").ok());
  const std::string moved = (root_ / "elsewhere").string();
  std::filesystem::rename(dir_, moved);
  const absl::Status refused = OpenLocalLayout(files_, config_, moved, "/bin/atolld").status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("the run was moved. Set dir = \".\""));
}

TEST_F(LocalLayoutTest, DamagedPeersFilesAreRefused) {
  // Broken: `atoll run show --dir` would end by an exception.
  std::filesystem::create_directories(dir_);
  EXPECT_EQ(ReadPeersFile(files_, dir_).status().code(), absl::StatusCode::kNotFound);
  for (const char* text :
       {"", "{}", "[1]", "[{\"id\": 3}]", "[{\"id\": \"a\", \"role\": \"peer\"}]"}) {
    std::ofstream(absl::StrCat(dir_, "/peers.json")) << text;
    EXPECT_EQ(ReadPeersFile(files_, dir_).status().code(), absl::StatusCode::kDataLoss) << text;
  }
}

}  // namespace
}  // namespace atolld
