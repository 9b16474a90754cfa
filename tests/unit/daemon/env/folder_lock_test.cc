// The folders that processes work in, and where a peer's worker finds its daemon.
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/env/posix_folder_lock.h"
#include "daemon/env/scratch_folder.h"
#include "daemon/env/signal_events.h"
#include "daemon/env/worker_socket.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/daemon/env/temporary_directory.h"

namespace atolld {
namespace {

namespace fs = std::filesystem;
using ::testing::StartsWith;

// Holds the folder's lock in another process until it is killed.
class OtherHolder {
 public:
  explicit OtherHolder(const std::string& dir) {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    pid_ = fork();
    if (pid_ == 0) {
      const auto lock = FolderLock::Take(dir);
      const char taken = lock.ok() ? 'y' : 'n';
      (void)!write(ends[1], &taken, 1);
      for (;;) pause();
    }
    char taken = 0;
    EXPECT_EQ(read(ends[0], &taken, 1), 1);
    EXPECT_EQ(taken, 'y');
    close(ends[0]);
    close(ends[1]);
  }
  ~OtherHolder() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = 0;
};

TEST(FolderLockTest, ASecondProcessIsRefusedAndToldByWhom) {
  // Broken: a second start in one peer's folder would put the first out, and then neither trains.
  const TemporaryDirectory dir;
  std::string named;
  {
    const OtherHolder holder(dir.path());
    named = absl::StrCat(dir.path(), " is in use by process ", holder.pid());
    const auto refused = FolderLock::Take(dir.path(), absl::ZeroDuration());
    EXPECT_EQ(refused.status().code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(refused.status().message()), StartsWith(named));
    EXPECT_EQ(HolderOf(dir.path()), holder.pid());
  }
  // However it ended, the folder is free.
  const auto lock = FolderLock::Take(dir.path(), absl::ZeroDuration());
  EXPECT_TRUE(lock.ok()) << lock.status();
  EXPECT_EQ(HolderOf(dir.path()), getpid());
}

TEST(FolderLockTest, AFolderOfNobodyHasNoHolder) {
  // Broken: a run that is over would look as if it went on, by a lock that was left behind.
  const TemporaryDirectory dir;
  EXPECT_FALSE(HolderOf(dir.path()).has_value());
  EXPECT_TRUE(FolderLock::Take(dir.path()).ok());
  EXPECT_TRUE(fs::exists(dir.File("lock")));
  EXPECT_FALSE(HolderOf(dir.path()).has_value());
}

// -----------------------------------------------------------------------------------------------

TEST(ScratchFolderTest, IsForItsOwnerAloneAndGoneWithTheObject) {
  // Broken: what was fetched for a while stays, or others read it.
  const TemporaryDirectory top;
  {
    const auto folder = ScratchFolder::Make(top.File("out.fetch"));
    ASSERT_TRUE(folder.ok()) << folder.status();
    EXPECT_THAT((*folder)->path(), StartsWith(top.File("out.fetch-")));
    EXPECT_EQ(fs::status((*folder)->path()).permissions(), fs::perms::owner_all);
    std::ofstream((*folder)->path() + "/snapshot") << "bytes";
  }
  EXPECT_TRUE(fs::is_empty(top.path()));
  EXPECT_EQ(ScratchFolder::Make(top.File("none/out")).status().code(), absl::StatusCode::kNotFound);
}

TEST(ScratchFolderTest, WhatAKilledProcessHasLeftGoesWithTheNextAndNothingElseDoes) {
  // Broken: each killed `atoll run branch` leaves a whole state beside its file for ever, or a
  // second one takes the folder from under the first.
  const TemporaryDirectory top;
  const std::string left = top.File("out.fetch-aB3xY9");
  const std::string used = top.File("out.fetch-useddd");
  const std::vector<std::string> others = {top.File("out.fetch-longer1"),
                                           top.File("out.fetch-a-b-c"),
                                           top.File("another.fetch-aB3xY9"), top.File("out")};
  for (const std::string& path : others) fs::create_directories(path);
  fs::create_directories(left + "/fetch");
  std::ofstream(left + "/fetch/snapshot.part") << "bytes";
  fs::create_directory_symlink(top.File("out"), top.File("out.fetch-linked"));
  fs::create_directories(used);
  {
    const OtherHolder holder(used);
    const auto folder = ScratchFolder::Make(top.File("out.fetch"));
    ASSERT_TRUE(folder.ok()) << folder.status();
    EXPECT_FALSE(fs::exists(left));
    EXPECT_TRUE(fs::exists(used));
    const auto second = ScratchFolder::Make(top.File("out.fetch"));  // beside the first
    ASSERT_TRUE(second.ok()) << second.status();
    EXPECT_TRUE(fs::exists((*folder)->path()));
  }
  const auto later = ScratchFolder::Make(top.File("out.fetch"));  // whoever worked there is killed
  ASSERT_TRUE(later.ok()) << later.status();
  EXPECT_FALSE(fs::exists(used));
  for (const std::string& path : others) EXPECT_TRUE(fs::exists(path)) << path;
  EXPECT_TRUE(fs::is_symlink(top.File("out.fetch-linked")));
}

// -----------------------------------------------------------------------------------------------

// What a daemon leaves there.
void BindAt(const std::string& address) {
  sockaddr_un target{};
  target.sun_family = AF_UNIX;
  const std::string path = address.substr(std::strlen("unix:"));
  ASSERT_LT(path.size(), sizeof target.sun_path);
  std::memcpy(target.sun_path, path.data(), path.size());
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  EXPECT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&target), sizeof target), 0);
  close(fd);
}

fs::path FolderOf(const WorkerSocket& socket) {
  return fs::path(socket.address().substr(std::strlen("unix:"))).parent_path();
}

TEST(WorkerSocketTest, APlainFolderHoldsItsSocket) {
  // Broken: every peer would need a folder among the temporary files.
  const TemporaryDirectory dir;
  const auto socket = WorkerSocket::Make(dir.path());
  ASSERT_TRUE(socket.ok()) << socket.status();
  EXPECT_EQ((*socket)->address(), absl::StrCat("unix:", dir.path(), "/worker.sock"));
}

TEST(WorkerSocketTest, OddAndLongFoldersGetAnAddressThatGrpcTakes) {
  // Broken: the worker of a run in a folder called `lr=1e-3,batch=4` would never connect.
  const TemporaryDirectory top;
  for (const std::string& name :
       {std::string("lr=1e-3,batch=4"), std::string("a#b"), std::string("a?b"), std::string("a%41"),
        std::string("a b"), std::string("na\xc3\xafve"), std::string(150, 'x')}) {
    const std::string dir = top.File(name);
    fs::create_directories(dir);
    fs::path folder;
    {
      const auto socket = WorkerSocket::Make(dir);
      ASSERT_TRUE(socket.ok()) << socket.status();
      folder = FolderOf(**socket);
      EXPECT_EQ((*socket)->address().find_first_of("#?%, ="), std::string::npos);
      EXPECT_NE(folder, dir);
      EXPECT_EQ(fs::status(folder).permissions() & fs::perms::others_all, fs::perms::none);
      BindAt((*socket)->address());
    }
    EXPECT_FALSE(fs::exists(folder)) << name;  // nothing is left among the temporary files
    EXPECT_TRUE(fs::is_empty(dir)) << name;
  }
}

TEST(WorkerSocketTest, WhatAKilledProcessHasLeftGoesWithTheNext) {
  // Broken: each kill would leave a folder in /tmp for ever.
  const TemporaryDirectory top;
  const std::string dir = top.File("a,b");
  fs::create_directories(dir);
  auto killed = WorkerSocket::Make(dir);
  ASSERT_TRUE(killed.ok());
  const fs::path folder = FolderOf(**killed);
  BindAt((*killed)->address());
  const auto next = WorkerSocket::Make(dir);
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_FALSE(fs::exists(folder));
  EXPECT_NE(FolderOf(**next), folder);
}

TEST(WorkerSocketTest, ALinkToWhatIsNotOursTakesNothingAway) {
  // Broken: a link that leads somewhere else would remove files there.
  const TemporaryDirectory top;
  const std::string dir = top.File("a,b");
  fs::create_directories(top.File("other"));
  fs::create_directories(dir);
  std::ofstream(top.File("other/worker.sock")) << "a file";
  fs::create_symlink(top.File("other"), dir + "/worker.sock.folder");
  EXPECT_TRUE(WorkerSocket::Make(dir).ok());
  EXPECT_TRUE(fs::exists(top.File("other/worker.sock")));
}

// -----------------------------------------------------------------------------------------------

TEST(EndSignalsTest, SignalsOfOneSecondAreOne) {
  // Broken: `timeout`, which signals the process and then its group, would cut the drain off.
  const absl::Time begin = absl::UnixEpoch();
  EndSignals signals;
  EXPECT_EQ(signals.Take(begin), EndSignals::Meaning::kDrain);
  EXPECT_EQ(signals.Take(begin + absl::Milliseconds(5)), EndSignals::Meaning::kNothing);
  EXPECT_EQ(signals.Take(begin + absl::Milliseconds(999)), EndSignals::Meaning::kNothing);
  EXPECT_EQ(signals.Take(begin + absl::Seconds(1)), EndSignals::Meaning::kStop);
}

TEST(EndSignalsTest, AHangUpThatIsIgnoredStaysIgnored) {
  // Broken: `nohup atoll local` would end with its terminal.
  const auto ends = [] { return SignalsThatEnd().size() == 3; };
  const auto before = signal(SIGHUP, SIG_DFL);
  EXPECT_TRUE(ends());
  signal(SIGHUP, SIG_IGN);
  EXPECT_FALSE(ends());
  signal(SIGHUP, before);
}

}  // namespace
}  // namespace atolld
