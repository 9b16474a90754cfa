// Would break: a token is spent, or a key is written, in a folder in which the daemon cannot work.
#include "daemon/fitness/folder_fitness.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/env/posix_files.h"
#include "gmock/gmock.h"
#include "tests/unit/daemon/env/temporary_directory.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;
using Weight = Finding::Weight;

constexpr char kCannotMount[] = "cannot mount";

std::string TextOf(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& finding : findings) {
    absl::StrAppend(&text,
                    finding.weight == Weight::kFatal      ? "fatal "
                    : finding.weight == Weight::kDoubtful ? "doubtful "
                                                          : "good ",
                    finding.line, "\n");
  }
  return text;
}

// What a child process says of the folder after `prepare` has changed what the kernel gives it.
std::string InChild(const std::string& dir, FolderUse use, const std::function<bool()>& prepare) {
  int ends[2];
  EXPECT_EQ(0, pipe2(ends, O_CLOEXEC));
  const pid_t child = fork();
  if (child == 0) {
    PosixFiles files;
    const std::string text = prepare() ? TextOf(CheckFolder(files, dir, use)) : kCannotMount;
    _exit(write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size()) ? 0 : 1);
  }
  close(ends[1]);
  std::string text;
  char part[4096];
  for (ssize_t got; (got = read(ends[0], part, sizeof part)) > 0;) {
    text.append(part, static_cast<size_t>(got));
  }
  close(ends[0]);
  int status = -1;
  EXPECT_EQ(child, waitpid(child, &status, 0));
  EXPECT_EQ(0, status);
  return text;
}

// From now on these calls fail in this process, as a poor file system has them fail.
bool LetFail(const std::vector<int>& calls, int error) {
  std::vector<sock_filter> program = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
  for (const int call : calls) {
    program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(call), 0, 1));
    program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<uint32_t>(error)));
  }
  program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const sock_fprog filter = {static_cast<unsigned short>(program.size()), program.data()};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

// Of this process alone.
bool MountSmallFolder(const std::string& dir, const std::string& options) {
  return unshare(CLONE_NEWNS) == 0 &&
         mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount("tmpfs", dir.c_str(), "tmpfs", 0, options.c_str()) == 0;
}

TEST(FolderFitness, AnOrdinaryFolderIsFitAndLeftAsItWas) {
  const TemporaryDirectory directory;
  PosixFiles files;
  for (const FolderUse use : {FolderUse::kPeer, FolderUse::kCoordinator}) {
    for (const std::string& dir : {directory.path(), directory.File("not/made/yet")}) {
      const auto findings = CheckFolder(files, dir, use);
      ASSERT_EQ(1u, findings.size()) << TextOf(findings);
      EXPECT_EQ(Weight::kGood, findings[0].weight) << findings[0].line;
      EXPECT_THAT(findings[0].line, HasSubstr(dir));
      EXPECT_TRUE(FolderIsFit(files, dir, use).ok());
    }
  }
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
}

TEST(FolderFitness, SaysWhatTheFileSystemRefuses) {
  const TemporaryDirectory directory;
  struct Case {
    std::vector<int> calls;
    int error;
    FolderUse use;
    const char* says;
  };
  std::vector<int> renames = {SYS_renameat, SYS_renameat2};
#ifdef SYS_rename
  renames.push_back(SYS_rename);
#endif
  const Case cases[] = {
      {{SYS_fchmod}, EPERM, FolderUse::kPeer, "fatal folder: DIR keeps no file modes"},
      {{SYS_fdatasync}, EIO, FolderUse::kPeer, "fatal folder: DIR does not sync"},
      {{SYS_fsync}, EIO, FolderUse::kPeer, "fatal folder: DIR does not sync"},
      {renames, EPERM, FolderUse::kPeer, "fatal folder: DIR does not replace a file"},
      {{SYS_flock}, ENOLCK, FolderUse::kPeer, "doubtful folder: DIR has no locks"},
      {{SYS_fcntl}, ENOLCK, FolderUse::kCoordinator, "fatal folder: DIR has no locks of ranges"},
      {{SYS_bind}, EPERM, FolderUse::kPeer, "fatal folder: DIR holds no Unix-domain sockets"},
  };
  for (const Case& one : cases) {
    const std::string text =
        InChild(directory.path(), one.use, [&one] { return LetFail(one.calls, one.error); });
    const std::string wanted = absl::StrCat(one.says);
    const size_t dir = wanted.find("DIR");
    EXPECT_THAT(text, ::testing::StartsWith(absl::StrCat(wanted.substr(0, dir), directory.path(),
                                                         wanted.substr(dir + 3))));
    EXPECT_THAT(text, HasSubstr("; take a folder on a local Linux file system"));
    EXPECT_EQ(1, std::count(text.begin(), text.end(), '\n')) << text;
  }
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
}

TEST(FolderFitness, AFullOrReadOnlyFolderIsNone) {
  const TemporaryDirectory directory;
  const std::string& dir = directory.path();
  const auto mounted = [&dir](const std::string& options) {
    return InChild(dir, FolderUse::kPeer, [&] { return MountSmallFolder(dir, options); });
  };
  const std::string read_only = mounted("ro");
  if (read_only == kCannotMount) GTEST_SKIP() << "only root may mount a folder";
  EXPECT_THAT(read_only, HasSubstr("cannot be worked in"));
  EXPECT_THAT(read_only, HasSubstr("Read-only file system"));
  EXPECT_THAT(mounted("size=512k"), HasSubstr("takes no file of 1 MiB (it is full"));
  EXPECT_THAT(mounted("size=512k"), HasSubstr("; make room"));
  // The folder, the scratch folder in it, its lock, and the key.
  EXPECT_THAT(mounted("nr_inodes=4"), HasSubstr("takes no file of 1 MiB (it is full"));
}

}  // namespace
}  // namespace atolld
