#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
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
#include "daemon/env/line_writer.h"
#include "daemon/env/posix_executor.h"
#include "daemon/env/posix_files.h"
#include "daemon/env/process_figures.h"
#include "daemon/env/process_log.h"
#include "daemon/env/signal_events.h"
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
