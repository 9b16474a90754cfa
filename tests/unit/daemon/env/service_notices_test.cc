// Would break: `systemctl start` waits for a daemon that is long ready, a daemon whose loop hangs
// is never started again, or one that runs well is killed by its watchdog.
#include "daemon/env/service_notices.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/env/child_process.h"
#include "daemon/env/posix_executor.h"
#include "tests/unit/daemon/env/temporary_directory.h"

namespace atolld {
namespace {

constexpr absl::Duration kNoticeLimit = absl::Seconds(30);

// The service manager's end.
class NoticeSocket {
 public:
  explicit NoticeSocket(const std::string& path) : socket_(socket(AF_UNIX, SOCK_DGRAM, 0)) {
    sockaddr_un at = {};
    at.sun_family = AF_UNIX;
    std::memcpy(at.sun_path, path.data(), path.size());
    const size_t length = offsetof(sockaddr_un, sun_path) + path.size();
    EXPECT_EQ(bind(socket_, reinterpret_cast<sockaddr*>(&at), static_cast<socklen_t>(length)), 0);
  }
  ~NoticeSocket() { close(socket_); }

  // All that has been said up to now.
  std::string Said() {
    char buffer[4096];
    for (;;) {
      const ssize_t got = recv(socket_, buffer, sizeof buffer, MSG_DONTWAIT);
      if (got < 0) return said_;
      said_.append(buffer, static_cast<size_t>(got));
    }
  }

 private:
  int socket_;
  std::string said_;
};

size_t Count(const std::string& text, const std::string& word) {
  size_t count = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++count;
  return count;
}

TEST(ServiceNoticesTest, ReadyComesFirstAndSignsOfLifeGoOn) {
  const TemporaryDirectory folder;
  NoticeSocket manager(folder.path() + "/notify");
  PosixExecutor executor({1, 0});
  ServiceNotices notices(folder.path() + "/notify", absl::Milliseconds(60));
  EXPECT_EQ(manager.Said(), "");
  int round = 0;
  notices.Ready(executor, [&round] { return absl::StrCat("round ", ++round, "\nREADY=1"); });
  EXPECT_TRUE(absl::StartsWith(manager.Said(), "READY=1\n")) << manager.Said();
  EXPECT_TRUE(
      executor.RunUntil([&] { return Count(manager.Said(), "WATCHDOG=1\n") >= 4; }, kNoticeLimit));
  // A line is one line, whatever is in it.
  EXPECT_TRUE(absl::StrContains(manager.Said(), "STATUS=round 3")) << manager.Said();
  EXPECT_EQ(Count(manager.Said(), "\nREADY=1"), 0u);
  notices.Stopping();
  EXPECT_TRUE(absl::EndsWith(manager.Said(), "STOPPING=1\n")) << manager.Said();
}

TEST(ServiceNoticesTest, ALoopThatHangsIsSilent) {
  const TemporaryDirectory folder;
  NoticeSocket manager(folder.path() + "/notify");
  PosixExecutor executor({1, 0});
  ServiceNotices notices(folder.path() + "/notify", absl::Milliseconds(30));
  notices.Ready(executor, [] { return std::string("hangs"); });
  const absl::Time began = executor.Now();
  while (executor.Now() < began + absl::Milliseconds(90)) {  // the loop does something else
  }
  EXPECT_EQ(Count(manager.Said(), "WATCHDOG=1\n"), 1u);
}

TEST(ServiceNoticesTest, AnAbstractSocketAndTheVariablesAreUnderstood) {
  const std::string name = absl::StrCat("atoll-notices-", getpid());
  NoticeSocket manager(std::string(1, '\0') + name);
  PosixExecutor executor({1, 0});
  setenv("NOTIFY_SOCKET", absl::StrCat("@", name).c_str(), 1);
  setenv("WATCHDOG_USEC", "30000", 1);
  setenv("WATCHDOG_PID", absl::StrCat(getpid()).c_str(), 1);
  std::string child_has = "?";
  {
    ServiceNotices notices = ServiceNotices::FromEnvironment();
    EXPECT_TRUE(notices.wanted());
    notices.Ready(executor, [] { return std::string("here"); });
    EXPECT_TRUE(executor.RunUntil([&] { return Count(manager.Said(), "WATCHDOG=1\n") >= 3; },
                                  kNoticeLimit));
    // A child that took itself for the service could say that it is ready, or be told to end.
    ChildProcess::Options options;
    options.arguments = {"/bin/sh", "-c", "echo \"[$NOTIFY_SOCKET$WATCHDOG_USEC$WATCHDOG_PID]\""};
    ChildProcess::Events events;
    bool ended = false;
    events.on_output_line = [&](const std::string& line) { child_has = line; };
    events.on_exit = [&](ExitStatus) { ended = true; };
    const auto child = ChildProcess::Spawn(executor, options, events);
    ASSERT_TRUE(child.ok()) << child.status();
    EXPECT_TRUE(executor.RunUntil([&] { return ended; }, kNoticeLimit));
  }
  for (const char* name_of : {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"}) unsetenv(name_of);
  EXPECT_EQ(child_has, "[]");
}

TEST(ServiceNoticesTest, WithoutAManagerNothingIsSaidAndNothingFails) {
  PosixExecutor executor({1, 0});
  for (const char* socket : {"", "relative", "/nowhere/notify"}) {
    ServiceNotices notices(socket, absl::ZeroDuration());
    notices.Ready(executor, [] { return std::string("alone"); });
    notices.Stopping();
  }
  ServiceNotices notices = ServiceNotices::FromEnvironment();
  EXPECT_FALSE(notices.wanted());
}

}  // namespace
}  // namespace atolld
