#include "daemon/cli/local/local_processes.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace atolld {
namespace {

class LocalProcessesTest : public ::testing::Test {
 protected:
  LocalProcessesTest()
      : dir_((std::filesystem::temp_directory_path() /
              absl::StrCat("atoll-processes-", getpid(), "-",
                           ::testing::UnitTest::GetInstance()->current_test_info()->name()))
                 .string()) {
    std::filesystem::create_directories(dir_);
    layout_.dir = dir_;
  }
  ~LocalProcessesTest() override { std::filesystem::remove_all(dir_); }

  void Add(const std::string& script) {
    LocalProcess process;
    process.id = absl::StrCat("peer-", layout_.processes.size());
    process.role = "peer";
    process.dir = absl::StrCat(dir_, "/", process.id);
    process.command = {"/bin/sh", "-c", script};
    std::filesystem::create_directories(process.dir);
    layout_.processes.push_back(process);
  }

  absl::Status StartAll(LocalProcesses& processes) {
    absl::Status status;
    for (size_t i = 0; i < layout_.processes.size() && status.ok(); ++i) {
      status = processes.Start(i);
    }
    return status;
  }

  std::string dir_;
  LocalLayout layout_;
};

// Polls until the process at `index` has ended.
LocalProcesses::Change EndOf(LocalProcesses& processes, size_t index) {
  while (true) {
    for (const LocalProcesses::Change& change : processes.Poll()) {
      if (change.index == index && !change.started) return change;
    }
  }
}

TEST_F(LocalProcessesTest, TellsHowAProcessEnded) {
  // Broken: `atoll local` would not say that a peer died, or blame it for leaving at the end.
  Add("echo said; exit 3");
  Add("kill -9 $$");
  LocalProcesses processes(layout_);
  ASSERT_TRUE(StartAll(processes).ok());
  const LocalProcesses::Change exited = EndOf(processes, 0);
  EXPECT_EQ(exited.exit->Predicate(), "exited with 3");
  EXPECT_EQ(processes.exit(0), 3);
  // The other may have been reported by the same poll.
  while (processes.running(1)) processes.Poll();
  EXPECT_EQ(processes.exit(1), -9);
  EXPECT_FALSE(processes.any_peer_running());
  std::ifstream log(absl::StrCat(layout_.processes[0].dir, "/log.txt"));
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(log), {}), "said\n");
}

TEST_F(LocalProcessesTest, StopEndsEvenThoseThatRefuse) {
  // Broken: Ctrl-C would leave daemons behind.
  Add("trap '' TERM; echo ready; while :; do :; done");
  LocalProcesses processes(layout_);
  ASSERT_TRUE(StartAll(processes).ok());
  const std::string log = absl::StrCat(layout_.processes[0].dir, "/log.txt");
  while (std::filesystem::file_size(log) == 0) {  // the trap stands
  }
  const pid_t pid = layout_.processes[0].pid;
  processes.Stop({0}, absl::Milliseconds(1));
  EXPECT_FALSE(processes.running(0));
  EXPECT_EQ(processes.exit(0), -SIGKILL);
  EXPECT_FALSE(IsRunning(pid));
}

TEST_F(LocalProcessesTest, APidFileOfAnotherProgramIsNotBelieved) {
  // Broken: a number that the system has given to somebody else would be taken for a peer, and at
  // the end be killed.
  Add("exit 0");
  LocalProcesses processes(layout_);
  ASSERT_TRUE(StartAll(processes).ok());
  std::ofstream(absl::StrCat(layout_.processes[0].dir, "/pid")) << getpid() << "\n";
  EndOf(processes, 0);
  EXPECT_TRUE(processes.Poll().empty());
  EXPECT_FALSE(processes.running(0));
}

// Broken: a run of some weeks fills the disk with its logs.
TEST_F(LocalProcessesTest, ALogThatIsTooLongIsMovedAside) {
  const std::string dir = ::testing::TempDir() + "/trim-log";
  std::filesystem::create_directories(dir);
  const std::string path = dir + "/log.txt";
  std::ofstream log(path, std::ios::app);
  log << "one" << std::flush;
  TrimLog(path, 3);
  EXPECT_FALSE(std::filesystem::exists(path + ".1"));
  log << "two" << std::flush;
  TrimLog(path, 3);
  log << "three" << std::flush;  // into the same file, from its beginning
  const auto read = [](const std::string& file) {
    std::ifstream stream(file);
    return std::string(std::istreambuf_iterator<char>(stream), {});
  };
  EXPECT_EQ(read(path), "three");
  EXPECT_EQ(read(path + ".1"), "onetwo");
  TrimLog(path, 3);
  EXPECT_EQ(read(path), "");
  EXPECT_EQ(read(path + ".1"), "three");
  std::filesystem::remove_all(dir);
}

TEST_F(LocalProcessesTest, AMissingProgramIsAnError) {
  // Broken: a build without atolld would look like a peer that died at once.
  layout_.processes.push_back({"peer-0", "peer", 0, dir_, "", {"/none/such"}});
  LocalProcesses processes(layout_);
  EXPECT_EQ(StartAll(processes).code(), absl::StatusCode::kNotFound);
}

TEST(RunAndCaptureTest, CapturesWhatAProgramSays) {
  // Broken: generated text would be lost, or a failed generation look like an empty text.
  EXPECT_EQ(RunAndCapture({"/bin/sh", "-c", "echo out; echo err >&2"}, 60).value(), "out\n");
  EXPECT_EQ(RunAndCapture({"/bin/sh", "-c", "echo one >&2; echo last words >&2; exit 1"}, 60)
                .status()
                .message(),
            "sh exited with 1: last words");
  // More than a pipe holds, on both.
  EXPECT_EQ(RunAndCapture({"/bin/sh", "-c", "head -c 300000 /dev/zero | tee /dev/stderr"}, 60)
                .value()
                .size(),
            300000u);
}

TEST(RunAndCaptureTest, InputIsFedWhileOutputIsRead) {
  // Broken: a model that is larger than a pipe would never reach its worker.
  const std::string megabyte(1 << 20, 'x');
  const auto feed = [&](const WriteInput& write) {
    absl::Status status;
    for (int i = 0; i < 3 && status.ok(); ++i) status = write(BytesOf(megabyte));
    return status;
  };
  EXPECT_EQ(RunAndCapture({"/bin/sh", "-c", "cat"}, 60, {}, feed)->size(), 3u << 20);
  // One that reads nothing tells itself what is wrong.
  EXPECT_EQ(RunAndCapture({"/bin/sh", "-c", "echo no >&2; exit 2"}, 60, {}, feed).status(),
            absl::InvalidArgumentError("sh exited with 2: no"));
  // What the feed could not make is the reason, whatever the program makes of its end.
  const auto broken = [](const WriteInput& write) {
    return write(BytesOf("x")).ok() ? absl::DataLossError("spoilt") : absl::OkStatus();
  };
  EXPECT_EQ(RunAndCapture({"/bin/sh", "-c", "cat; exit 1"}, 60, {}, broken).status(),
            absl::DataLossError("spoilt"));
}

TEST(RunAndCaptureTest, OutputIsSeenAsItComes) {
  // Broken: a long text would be on the screen only when all of it is made.
  const std::string fifo = absl::StrCat(testing::TempDir(), "/atoll-goes-on-", getpid());
  std::remove(fifo.c_str());
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  std::vector<std::string> seen;
  // The program goes on only when its first words were seen.
  const absl::StatusOr<std::string> all =
      RunAndCapture({"/bin/sh", "-c",
                     absl::StrCat("echo first; read word < ", fifo, "; echo second; echo no >&2")},
                    60, [&](absl::string_view text) {
                      seen.emplace_back(text);
                      if (seen.size() == 1) std::ofstream(fifo) << "go on\n";
                    });
  std::remove(fifo.c_str());
  EXPECT_EQ(all.value(), "first\nsecond\n");
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[0], "first\n");
  EXPECT_EQ(seen[1], "second\n");
}

}  // namespace
}  // namespace atolld
