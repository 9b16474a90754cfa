#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
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
  options.to_standard_error = false;
  options.file = directory.File("log");
  for (const char* line : {"round 12: first", "peer said \"a\nb\x1b\xff\xe2\x80\xae\""}) {
    auto log = ProcessLog::Open(options);
    ASSERT_TRUE(log.ok()) << log.status();
    (*log)->Debug("not shown");
    (*log)->Warning(line);
    auto text = ReadFile(files, options.file, 1 << 20);  // flushed while it is open
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
  options.to_standard_error = false;
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
