#include "daemon/env/child_process.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/env/child_mark.h"
#include "daemon/env/posix_executor.h"
#include "daemon/env/posix_files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/daemon/env/temporary_directory.h"

namespace atolld {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr absl::Duration kChildLimit = absl::Seconds(30);

// The letter of /proc/PID/stat; 0: there is no such process.
char ReadProcessState(pid_t pid) {
  std::ifstream stream(absl::StrCat("/proc/", pid, "/stat"));
  std::string line;
  if (!std::getline(stream, line)) return 0;
  return line[line.rfind(')') + 2];
}

class ChildProcessTest : public ::testing::Test {
 protected:
  ChildProcess::Events Record() {
    ChildProcess::Events events;
    events.on_output_line = [this](const std::string& line) { output_.push_back(line); };
    events.on_error_line = [this](const std::string& line) { error_.push_back(line); };
    events.on_exit = [this](ExitStatus status) {
      exit_ = status;
      exited_ = true;
    };
    return events;
  }
  void RunShell(const std::string& script, ChildProcess::Options options = {}) {
    options.arguments = {"/bin/sh", "-c", script};
    auto child = ChildProcess::Spawn(executor_, options, Record());
    ASSERT_TRUE(child.ok()) << child.status();
    child_ = *std::move(child);
  }
  bool RunToExit() {
    return executor_.RunUntil([this] { return exited_; }, kChildLimit);
  }

  PosixExecutor executor_{PosixExecutor::Options()};
  std::unique_ptr<ChildProcess> child_;
  std::vector<std::string> output_;
  std::vector<std::string> error_;
  ExitStatus exit_;
  bool exited_ = false;
};

// The daemon shows its worker's lines and acts on its exit code; the last line may lack its end.
TEST_F(ChildProcessTest, DeliversLinesThenTheExitCode) {
  RunShell("echo one; echo; printf two; echo bad >&2; exit 3");
  ASSERT_TRUE(RunToExit());
  EXPECT_THAT(output_, ElementsAre("one", "", "two"));
  EXPECT_THAT(error_, ElementsAre("bad"));
  EXPECT_EQ(exit_.code, 3);
  EXPECT_EQ(exit_.Text(), "exit code 3");
  EXPECT_EQ(exit_.Predicate(), "exited with 3");
}

// A killed worker must be known as killed: it is restarted by another rule.
TEST_F(ChildProcessTest, TellsASignalFromAnExit) {
  RunShell("echo up; exec sleep 1000");
  ASSERT_TRUE(executor_.RunUntil([this] { return !output_.empty(); }, kChildLimit));
  child_->Kill(SIGKILL);
  ASSERT_TRUE(RunToExit());
  EXPECT_EQ(exit_.signal, SIGKILL);
  EXPECT_EQ(exit_.Text(), "killed by signal 9 (Killed)");
  EXPECT_EQ(exit_.Predicate(), "was killed by signal 9");
  child_->Kill(SIGKILL);  // after its end: nothing, above all not to a stranger
}

// A wrong path must be told at once, with its name, not as a strange exit code.
TEST_F(ChildProcessTest, AMissingProgramIsAnError) {
  ChildProcess::Options options;
  options.arguments = {"/no/such/program"};
  const auto child = ChildProcess::Spawn(executor_, options, Record());
  EXPECT_EQ(child.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(child.status().message()), HasSubstr("/no/such/program"));
}

// The worker finds its socket and its shared memory through these.
TEST_F(ChildProcessTest, PassesEnvironmentDescriptorsAndDirectory) {
  const TemporaryDirectory directory;
  FILE* const shared = tmpfile();
  ASSERT_NE(shared, nullptr);
  fputs("through\n", shared);
  rewind(shared);
  ChildProcess::Options options;
  options.environment = {{"ATOLL_TEST", "value"}, {"HOME", "/replaced"}};
  options.descriptors = {{fileno(shared), 3}};
  options.working_directory = directory.path();
  RunShell("echo $ATOLL_TEST $HOME; cat <&3; pwd; ls /proc/self/fd | wc -l", options);
  ASSERT_TRUE(RunToExit());
  fclose(shared);
  ASSERT_EQ(output_.size(), 4u);
  EXPECT_EQ(output_[0], "value /replaced");
  EXPECT_EQ(output_[1], "through");
  EXPECT_EQ(output_[2], directory.path());
  EXPECT_EQ(output_[3], "5") << "0, 1, 2, 3 and the directory that ls reads: nothing leaked";
}

// Kernels before 5.3 have no descriptors of processes, and some sandboxes forbid them. The filter
// is this thread's, and that of what it starts.
TEST_F(ChildProcessTest, IsWatchedWithoutADescriptorOfItsProcess) {
  std::thread([this] {
    sock_filter steps[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                           BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pidfd_open, 0, 1),
                           BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
                           BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    const sock_fprog filter = {4, steps};
    ASSERT_EQ(0, prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    ASSERT_EQ(0, prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter));
    RunShell("echo out; exit 3");
    ASSERT_TRUE(RunToExit());
    EXPECT_THAT(output_, ElementsAre("out"));
    EXPECT_EQ(exit_.code, 3);
    exited_ = false;
    RunShell("exec sleep 1000");
    child_->Kill(SIGKILL);
    ASSERT_TRUE(RunToExit());
    EXPECT_EQ(exit_.signal, SIGKILL);
    child_->Kill(SIGKILL);  // nobody's any more
    RunShell("exec sleep 1000");
    child_.reset();
  }).join();
}

// A child that writes for ever must be held up by its pipe, and what it wrote before its end must
// all arrive.
TEST_F(ChildProcessTest, DeliversMuchOutputInOrder) {
  RunShell("i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done");
  ASSERT_TRUE(RunToExit());
  ASSERT_EQ(output_.size(), 20000u);
  for (size_t i = 0; i < output_.size(); ++i) ASSERT_EQ(output_[i], absl::StrCat("line ", i));
}

// A grandchild that keeps the pipe open must not hide the child's end.
TEST_F(ChildProcessTest, EndsThoughAGrandchildHoldsThePipe) {
  RunShell("sleep 1000 & echo $!");
  ASSERT_TRUE(RunToExit());
  ASSERT_EQ(output_.size(), 1u);
  kill(std::stoi(output_[0]), SIGKILL);
}

// Nothing may be left running when its owner goes, and no callback may reach what is gone.
TEST_F(ChildProcessTest, DestructionKillsAndSilences) {
  RunShell("while :; do echo x; done");
  ASSERT_TRUE(executor_.RunUntil([this] { return !output_.empty(); }, kChildLimit));
  const pid_t pid = child_->pid();
  child_.reset();
  EXPECT_EQ(kill(pid, 0), -1);
  const size_t before = output_.size();
  bool end = false;
  executor_.Post([&] { end = true; });
  ASSERT_TRUE(executor_.RunUntil([&] { return end; }, kChildLimit));
  EXPECT_EQ(output_.size(), before);
  EXPECT_FALSE(exited_);
}

// What a worker starts (loaders of data, servers) must not stay behind and hold the GPU, wherever
// it has gone to.
TEST_F(ChildProcessTest, WhatAMarkedChildHasStartedEndsWithIt) {
  ChildProcess::Options options;
  options.mark = absl::StrCat(OwnMark(), "-test");
  RunShell(
      "sleep 1001 & echo $!; setsid sleep 1002 & echo $!; (setsid sh -c 'sleep 1003 & echo $!' &) ;"
      "sleep 0.3; exit 5",
      options);
  ASSERT_TRUE(RunToExit());
  EXPECT_EQ(exit_.code, 5);
  ASSERT_EQ(output_.size(), 3u);
  for (const std::string& pid : output_) {
    const char state = ReadProcessState(std::stoi(pid));
    EXPECT_TRUE(state == 0 || state == 'Z' || state == 'X') << pid << " " << state;
  }
}

// A worker that writes without end must fill neither the disk nor the loop, and why it ended must
// still be told.
TEST_F(ChildProcessTest, LeavesOutWhatIsTooMuch) {
  ChildProcess::Options options;
  options.most_output_bytes_per_second = 1000;
  RunShell("head -c 3000000 /dev/zero | tr '\\0' 'x' | fold -w 99; echo the reason >&2", options);
  ASSERT_TRUE(RunToExit());
  size_t bytes = 0;
  for (const auto* lines : {&output_, &error_}) {
    for (const std::string& line : *lines) bytes += line.size() + 1;
  }
  EXPECT_LT(bytes, 600000u);
  EXPECT_GT(bytes, 400000u);
  ASSERT_FALSE(error_.empty());
  EXPECT_EQ(error_.back(), "the reason");
  EXPECT_THAT(error_[error_.size() - 2], HasSubstr("were left out here"));
}

// When `kill -9` hits the parent, the worker must not stay behind and hold the GPU.
TEST_F(ChildProcessTest, DiesWithItsParent) {
  ChildProcess::Options options;
  options.death_signal = SIGKILL;
  options.arguments = {"/bin/sleep", "1000"};
  // The kernel ties the signal to the thread that spawned the child, so a thread's end stands for
  // the process's.
  std::thread spawner([&] {
    auto child = ChildProcess::Spawn(executor_, options, Record());
    ASSERT_TRUE(child.ok()) << child.status();
    child_ = *std::move(child);
  });
  spawner.join();
  ASSERT_TRUE(RunToExit());
  EXPECT_EQ(exit_.signal, SIGKILL);
}

// Broken: the log says only "exit code 1" of a worker or an aggregator that has written why.
TEST_F(ChildProcessTest, ItsExitBringsTheLastLineThatIsNotBlank) {
  RunShell("echo first >&2; echo 'no disk is left' >&2; echo ' '; exit 1");
  ASSERT_TRUE(RunToExit());
  EXPECT_EQ(exit_.last_line, "no disk is left");
}

// Broken: a sensor's program that hangs is never ended, or a child that ended in time is signalled.
TEST_F(ChildProcessTest, IsKilledAfterItsTime) {
  RunShell("exec sleep 1000");
  child_->KillAfter(absl::Milliseconds(20));
  ASSERT_TRUE(RunToExit());
  EXPECT_EQ(exit_.signal, SIGKILL);
  exited_ = false;
  RunShell("exit 0");
  child_->KillAfter(absl::Milliseconds(20));
  ASSERT_TRUE(RunToExit());
  child_.reset();  // before its time
  bool later = false;
  executor_.RunAfter(absl::Milliseconds(50), [&] { later = true; });
  ASSERT_TRUE(executor_.RunUntil([&] { return later; }, kChildLimit));
  EXPECT_TRUE(exit_.ok());
}

// A verb of `atoll` has no loop. Broken: it misses how its child ended, or takes it twice.
TEST(StartTest, WithoutALoopTheCallerReaps) {
  Pipe output = *MakePipe("test");
  ChildProcess::Options options;
  options.arguments = {"/bin/sh", "-c", "cat; echo out; exit 4"};  // nothing is to be read
  options.descriptors = {{output.write.get(), 1}};
  const pid_t child = *ChildProcess::Start(options);
  output.write.Reset();
  char text[8] = {};
  EXPECT_EQ(read(output.read.get(), text, sizeof(text) - 1), 4);
  EXPECT_STREQ(text, "out\n");
  std::optional<ExitStatus> exit;
  while (!exit) exit = ChildProcess::Reap(child);
  EXPECT_EQ(exit->code, 4);
  EXPECT_EQ(ChildProcess::Reap(child), std::nullopt);

  options.arguments = {"/bin/sh", "-c", "kill -TERM $$"};
  options.descriptors.clear();
  EXPECT_EQ(ChildProcess::Await(*ChildProcess::Start(options)).signal, SIGTERM);
  options.arguments = {"/no/such/program"};
  EXPECT_EQ(ChildProcess::Start(options).status().code(), absl::StatusCode::kNotFound);
}

// Broken: `atoll data prepare <(zcat text.gz)` gives its worker a path that the worker cannot open.
TEST(StartTest, InheritsDescriptorsOnlyIfAsked) {
  const int mine = open("/dev/null", O_RDONLY);  // not closed on exec
  ChildProcess::Options options;
  options.arguments = {"/bin/sh", "-c", absl::StrCat("test -e /proc/self/fd/", mine)};
  EXPECT_EQ(ChildProcess::Await(*ChildProcess::Start(options)).code, 1);
  options.inherits_descriptors = true;
  EXPECT_EQ(ChildProcess::Await(*ChildProcess::Start(options)).code, 0);
  close(mine);
}

// Broken: a worker that dies at once is started without a pause, or is away for hours.
TEST(RestartPauseTest, DoublesUpToItsLongestUntilTheProgramWorks) {
  RestartPause pause(absl::Seconds(1), absl::Seconds(5));
  for (const int seconds : {1, 2, 4, 5, 5}) EXPECT_EQ(pause.Next(), absl::Seconds(seconds));
  for (int i = 0; i < 100; ++i) EXPECT_EQ(pause.Next(), absl::Seconds(5));
  EXPECT_EQ(pause.ends(), 105);
  pause.Reset();
  EXPECT_EQ(pause.ends(), 0);
  EXPECT_EQ(pause.Next(), absl::Seconds(1));
}

}  // namespace
}  // namespace atolld
