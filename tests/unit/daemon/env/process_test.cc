#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "compression/base/last_words.h"
#include "daemon/env/child_mark.h"
#include "daemon/env/line_writer.h"
#include "daemon/env/posix_executor.h"
#include "daemon/env/posix_files.h"
#include "daemon/env/process_events.h"
#include "daemon/env/process_figures.h"
#include "daemon/env/process_log.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/daemon/env/temporary_directory.h"

namespace atolld {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

constexpr absl::Duration kProcessLimit = absl::Seconds(30);

class NoTransport final : public Transport {
 public:
  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string&, Acceptor) override {
    return absl::UnimplementedError("none");
  }
  std::unique_ptr<Call> Dial(const std::string&, const std::string&, absl::Duration) override {
    return nullptr;
  }
};

class NoLog final : public Log {
 public:
  void Write(Level, absl::string_view) override {}
};

// Broken: the first file that is opened would be standard output, and messages go into it.
TEST(StandardStreamsTest, AreThereWhateverAProcessWasStartedWith) {
  EXPECT_EXIT(
      {
        for (const int fd : {0, 1, 2}) close(fd);
        OpenStandardStreams();
        const int next = open("/dev/null", O_RDONLY);
        _exit(next > 2 && write(1, "x", 1) == 1 && write(2, "x", 1) == 1 ? 7 : 1);
      },
      ::testing::ExitedWithCode(7), "");
}

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
    return executor_.RunUntil([this] { return exited_; }, kProcessLimit);
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
}

// A killed worker must be known as killed: it is restarted by another rule.
TEST_F(ChildProcessTest, TellsASignalFromAnExit) {
  RunShell("echo up; exec sleep 1000");
  ASSERT_TRUE(executor_.RunUntil([this] { return !output_.empty(); }, kProcessLimit));
  child_->Kill(SIGKILL);
  ASSERT_TRUE(RunToExit());
  EXPECT_EQ(exit_.signal, SIGKILL);
  EXPECT_EQ(exit_.Text(), "killed by signal 9 (Killed)");
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
  ASSERT_TRUE(executor_.RunUntil([this] { return !output_.empty(); }, kProcessLimit));
  const pid_t pid = child_->pid();
  child_.reset();
  EXPECT_EQ(kill(pid, 0), -1);
  const size_t before = output_.size();
  bool end = false;
  executor_.Post([&] { end = true; });
  ASSERT_TRUE(executor_.RunUntil([&] { return end; }, kProcessLimit));
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
  options.die_with_parent = true;
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

// SIGTERM must reach the loop as an event, so that a peer can finish its round and leave.
TEST(SignalWatcher, BringsSignalsToTheLoop) {
  std::vector<int> seen;
  // The executor's threads start after the block, as the contract asks; but it must exist first.
  // Its pool thread would take the signal, so block here before.
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  ASSERT_EQ(pthread_sigmask(SIG_BLOCK, &set, nullptr), 0);
  PosixExecutor executor{PosixExecutor::Options()};
  {
    const SignalWatcher watcher(executor, {SIGTERM}, [&](int signal) { seen.push_back(signal); });
    kill(getpid(), SIGTERM);
    ASSERT_TRUE(executor.RunUntil([&] { return !seen.empty(); }, kProcessLimit));
  }
  EXPECT_THAT(seen, ElementsAre(SIGTERM));
}

// What a process was asked must not wait for a loop that is stuck, or for one that does not run.
TEST(SignalGuard, EndsAProcessThatTakesNoSignals) {
  const auto ends = ::testing::KilledBySignal(SIGTERM);
  EXPECT_EXIT(
      {
        const SignalGuard guard({SIGTERM});
        kill(getpid(), SIGTERM);
        for (;;) pause();
      },
      ends, "");
}

TEST(SignalGuard, LeavesWhatIsTaken) {
  EXPECT_EXIT(
      {
        const SignalGuard guard({SIGTERM});
        PosixExecutor executor{PosixExecutor::Options()};
        bool seen = false;
        const SignalWatcher watcher(executor, {SIGTERM}, [&](int) { seen = true; });
        kill(getpid(), SIGTERM);
        executor.RunUntil([&] { return seen; }, kProcessLimit);
        poll(nullptr, 0, 2500);
        _exit(seen ? 7 : 1);
      },
      ::testing::ExitedWithCode(7), "");
}

// Broken: a process ends without a word where a limit leaves it no thread.
TEST(TellUncaughtExceptions, NamesTheLimitOfThreads) {
  EXPECT_EXIT(
      {
        TellUncaughtExceptions();
        const auto refuse = [] {
          throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
        };
        std::thread(refuse).join();
      },
      ::testing::ExitedWithCode(1), "no thread can be made: .*(ulimit|pids.max|threads-max)");
}

// A pipe that nobody reads.
class FullPipe {
 public:
  FullPipe() {
    EXPECT_EQ(0, pipe2(ends_, O_CLOEXEC));
    fcntl(ends_[1], F_SETPIPE_SZ, 4096);
    fcntl(ends_[1], F_SETFL, O_NONBLOCK);
    while (write(ends_[1], "xxxxxxxx", 8) > 0) continue;
    fcntl(ends_[1], F_SETFL, 0);
  }
  ~FullPipe() {
    for (const int end : ends_) close(end);
  }
  int write_end() const { return ends_[1]; }
  // Reads until `wanted` has come.
  std::string ReadUntil(const std::string& wanted) const {
    std::string all;
    char bytes[4096];
    while (!absl::StrContains(all, wanted)) {
      const ssize_t got = read(ends_[0], bytes, sizeof bytes);
      if (got <= 0) break;
      all.append(bytes, static_cast<size_t>(got));
    }
    return all;
  }

 private:
  int ends_[2];
};

// Broken: whoever stops to read a log stops the daemon.
TEST(LineWriter, DropsAndCountsWhatNobodyReads) {
  const FullPipe pipe;
  LineWriter writer(pipe.write_end(), false,
                    [](uint64_t dropped) { return absl::StrCat("dropped ", dropped, "\n"); });
  const std::string line(999, 'y');
  for (int i = 0; i < 5000; ++i) writer.Write(absl::StrCat(line, "\n"));
  writer.Write("lost\n");
  // All that was written before is told of when this line comes.
  std::string all = pipe.ReadUntil("dropped ");
  writer.Write("back\n");
  all += pipe.ReadUntil("back\n");
  uint64_t kept = 0;
  uint64_t dropped = 0;
  for (absl::string_view text : absl::StrSplit(all, '\n', absl::SkipEmpty())) {
    uint64_t count = 0;
    if (absl::ConsumePrefix(&text, "dropped ") && absl::SimpleAtoi(text, &count)) {
      dropped += count;
    } else {
      ++kept;
    }
  }
  EXPECT_EQ(kept + dropped, 5002u);
  EXPECT_GT(kept, 500u);
  EXPECT_LT(kept, 3500u);
}

// Broken: SIGTERM does not end a daemon whose log nobody reads.
TEST(LineWriter, KeepsNoProcessFromEnding) {
  const FullPipe pipe;
  const absl::Time began = absl::Now();
  {
    LineWriter writer(pipe.write_end(), false, [](uint64_t) { return std::string(); });
    writer.Write("never read\n");
  }
  EXPECT_LT(absl::Now() - began, absl::Seconds(5));
  EXPECT_THAT(pipe.ReadUntil("never read\n"), EndsWith("never read\n"));  // its thread goes on
}

TEST(LastWords, WaitForNobody) {
  EXPECT_EXIT(
      {
        const FullPipe pipe;
        dup2(pipe.write_end(), STDERR_FILENO);
        DieOfCheck("file.cc", 7, "check failed: x");
      },
      ::testing::KilledBySignal(SIGABRT), "");
}

// Broken: alarms of a full disk, of a process that leaks memory or descriptors, or that hangs.
TEST(ProcessFigures, AreThoseOfThisProcess) {
  const ProcessFigures before = ReadProcessFigures("/");
  EXPECT_GT(before.resident_bytes, uint64_t{1} << 20);
  EXPECT_GT(before.virtual_bytes, before.resident_bytes);
  EXPECT_GT(before.cpu_seconds, 0);
  EXPECT_GT(before.disk_free_bytes, 0u);
  EXPECT_GT(before.memory_available_bytes, uint64_t{1} << 20);
  EXPECT_GT(before.most_descriptors, before.open_descriptors);
  const int more = open("/dev/null", O_RDONLY);
  EXPECT_EQ(ReadProcessFigures("/").open_descriptors, before.open_descriptors + 1);
  close(more);
  EXPECT_EQ(ReadProcessFigures("/no/such/folder").disk_free_bytes, 0u);
}

TEST(ProcessFigures, TellHowLateTheLoopIs) {
  PosixExecutor executor({1, 0});
  PosixFiles files;
  NoTransport transport;
  NoLog log;
  ProcessSampler sampler(Env{executor, files, transport, log}, "/");
  EXPECT_GT(sampler.newest().started_unix_seconds, 1.7e9);
  EXPECT_EQ(sampler.newest().late_seconds, 0);
  const absl::Time busy_until = executor.Now() + absl::Milliseconds(1300);
  executor.Post([&] {
    while (executor.Now() < busy_until) continue;
  });
  ASSERT_TRUE(executor.RunUntil([&] { return sampler.newest().late_seconds > 0; }, kProcessLimit));
  EXPECT_GE(sampler.newest().late_seconds, 0.25);
}

// Scripts and people read these lines; a stranger's text must not forge one.
TEST(ProcessLog, AppendsWholeEscapedLines) {
  const TemporaryDirectory directory;
  PosixFiles files;
  ProcessLog::Options options;
  options.file = directory.File("log");
  for (const char* line : {"round 12: first", "peer said \"a\nb\x1b\xff\xe2\x80\xae\""}) {
    auto log = ProcessLog::Open(options);
    ASSERT_TRUE(log.ok()) << log.status();
    (*log)->Debug("not shown");
    (*log)->Warning(line);
    log->reset();  // waits for the lines
    auto text = ReadFile(files, options.file, 1 << 20);
    ASSERT_TRUE(text.ok());
    EXPECT_TRUE(absl::EndsWith(*text, "\n"));
  }
  const std::string text = *ReadFile(files, options.file, 1 << 20);
  const std::vector<std::string> lines = absl::StrSplit(text, '\n', absl::SkipEmpty());
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_THAT(lines[0], MatchesRegex("[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\\.[0-9]{3}Z warning "
                                     "round 12: first"));
  EXPECT_THAT(lines[1], HasSubstr("peer said \"a\\nb\\x1b\\xff\\u202e\""));
}

// A collector takes each line for an object, whatever bytes a stranger's text has.
TEST(ProcessLog, WritesAnObjectALine) {
  const TemporaryDirectory directory;
  PosixFiles files;
  ProcessLog::Options options;
  options.file = directory.File("log");
  options.json = true;
  auto log = ProcessLog::Open(options);
  ASSERT_TRUE(log.ok()) << log.status();
  (*log)->Info("before anybody knows who writes");
  (*log)->SetContext({"peer", "", "p1"});
  (*log)->Debug("not shown");
  (*log)->Warning("round 12: committed, loss 3.1");
  (*log)->SetContext({"peer", "books", "p1"});
  (*log)->Error(absl::string_view("peer said \"C:\\x\n\x1b\xff\0\xe2\x80\xae\"", 23));
  (*log)->Info("round twelve: no number");
  log->reset();
  const std::string text = *ReadFile(files, options.file, 1 << 20);
  const std::vector<std::string> lines = absl::StrSplit(text, '\n', absl::SkipEmpty());
  ASSERT_EQ(lines.size(), 4u) << text;
  EXPECT_THAT(lines[0],
              MatchesRegex("\\{\"time\":\"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\\.[0-9]{3}Z"
                           "\",\"level\":\"info\","
                           "\"message\":\"before anybody knows who writes\"\\}"));
  EXPECT_THAT(lines[1], EndsWith("\"level\":\"warning\",\"process\":\"peer\",\"peer\":\"p1\","
                                 "\"round\":12,\"message\":\"committed, loss 3.1\"}"));
  EXPECT_THAT(lines[2], HasSubstr("\"run\":\"books\",\"peer\":\"p1\",\"message\""));
  EXPECT_THAT(lines[2], EndsWith(R"("message":"peer said \"C:\\x\\n\\x1b\\xff\\x00\\u202e\""})"));
  EXPECT_THAT(lines[3], EndsWith("\"message\":\"round twelve: no number\"}"));
}

// A log that cannot be opened must stop the start with the file's name.
TEST(ProcessLog, NamesAFileThatItCannotOpen) {
  ProcessLog::Options options;
  options.file = "/proc/no/log";
  const auto log = ProcessLog::Open(options);
  ASSERT_FALSE(log.ok());
  EXPECT_THAT(std::string(log.status().message()), HasSubstr("/proc/no/log"));
}

// A misspelt level must be told, not taken for another.
TEST(ProcessLog, ParsesLevels) {
  EXPECT_EQ(*ParseLogLevel("warning"), Log::Level::kWarning);
  EXPECT_THAT(std::string(ParseLogLevel("warn").status().message()), HasSubstr("warning"));
}

}  // namespace
}  // namespace atolld
