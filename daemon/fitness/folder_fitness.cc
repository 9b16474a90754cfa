#include "daemon/fitness/folder_fitness.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "daemon/env/posix_files.h"
#include "daemon/env/scratch_folder.h"
#include "daemon/env/worker_socket.h"

namespace atolld {
namespace {

using Weight = Finding::Weight;

constexpr size_t kTrialBytes = size_t{1} << 20;

// A snapshot of a model of 600 million parameters is larger; file systems limited to 4 GB (vfat)
// refuse to make a file of this size.
constexpr off_t kLargeFile = off_t{5} << 30;

constexpr absl::string_view kElsewhere =
    "take a folder on a local Linux file system (ext4, xfs, btrfs)";

std::string Words(int error) { return std::generic_category().message(error); }

class TrialFile {
 public:
  explicit TrialFile(int fd) : fd_(fd) {}
  ~TrialFile() {
    if (fd_ >= 0) close(fd_);
  }
  TrialFile(const TrialFile&) = delete;
  TrialFile& operator=(const TrialFile&) = delete;
  int get() const { return fd_; }

 private:
  const int fd_;
};

// All trials in one scratch folder. They are independent: one that fails does not hide another.
class FolderTrial {
 public:
  FolderTrial(Files& files, std::string dir, std::string scratch)
      : files_(files), dir_(std::move(dir)), scratch_(std::move(scratch)) {}

  std::vector<Finding> Run(FolderUse use) {
    TryModes();
    TrySync();
    TryRename();
    TryLocks(use);
    if (use == FolderUse::kPeer) TrySocket();
    if (use == FolderUse::kCoordinator) TrySharedMapping();
    TryLargeFile();
    return std::move(findings_);
  }

 private:
  void Say(Weight weight, absl::string_view what, absl::string_view why, absl::string_view right) {
    findings_.push_back({weight, absl::StrCat("folder: ", dir_, " ", what, why.empty() ? "" : " (",
                                              why, why.empty() ? "" : ")", "; ", right)});
  }

  // As the key of an identity is written.
  void TryModes() {
    const std::string path = scratch_ + "/key";
    const absl::Status made = files_.CreatePrivate(path).status();
    const absl::StatusOr<bool> hidden = made.ok() ? files_.IsPrivate(path) : made;
    if (hidden.ok() && *hidden) return;
    Say(Weight::kFatal, "keeps no file modes, so others could read this machine's key",
        hidden.ok() ? "a file of mode 600 has another mode" : hidden.status().message(),
        kElsewhere);
  }

  // Does not use Files, because a failed fsync of Files ends the process.
  void TrySync() {
    const TrialFile file(Open("log", O_RDWR | O_CREAT));
    const std::string bytes(kTrialBytes, 'x');
    const ssize_t wrote = file.get() < 0 ? -1 : write(file.get(), bytes.data(), bytes.size());
    if (wrote != static_cast<ssize_t>(bytes.size())) {
      const bool full = wrote >= 0 || errno == ENOSPC || errno == EDQUOT;
      return Say(Weight::kFatal, "takes no file of 1 MiB",
                 full ? "it is full, or its quota is" : Words(errno),
                 full ? "make room" : kElsewhere);
    }
    const TrialFile folder(open(scratch_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    int error = fdatasync(file.get()) != 0 ? errno : 0;
    // Some file systems sync no folders and need not: daemons pass over this error too.
    if (error == 0 && fsync(folder.get()) != 0 && errno != EINVAL) error = errno;
    if (error == 0) return;
    Say(Weight::kFatal, "does not sync what was written, so a crash may lose what was agreed",
        Words(error), kElsewhere);
  }

  // Over a file that is there, as all that must be whole is written.
  void TryRename() {
    const TrialFile fresh(Open("new", O_WRONLY | O_CREAT));
    const TrialFile old(Open("old", O_WRONLY | O_CREAT));
    const absl::Status renamed = files_.Rename(scratch_ + "/new", scratch_ + "/old");
    if (renamed.ok()) return;
    Say(Weight::kFatal, "does not replace a file by another", renamed.message(), kElsewhere);
  }

  void TryLocks(FolderUse use) {
    const TrialFile file(Open("locked", O_RDWR | O_CREAT));
    if (flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
      Say(Weight::kDoubtful, "has no locks, so nothing keeps two daemons from working in it",
          Words(errno), kElsewhere);
    }
    if (use != FolderUse::kCoordinator) return;
    struct flock range = {};
    range.l_type = F_WRLCK;
    range.l_whence = SEEK_SET;
    range.l_len = 1;
    if (fcntl(file.get(), F_SETLK, &range) == 0) return;
    Say(Weight::kFatal, "has no locks of ranges, which SQLite's store needs", Words(errno),
        kElsewhere);
  }

  void TrySocket() {
    const absl::Status fits = WorkerSocket::Try(dir_, scratch_);
    if (fits.ok()) return;
    Say(Weight::kFatal, "holds no Unix-domain sockets, over which the daemon talks to the worker",
        fits.message(), absl::StrCat(kElsewhere, ", or set TMPDIR to one"));
  }

  void TrySharedMapping() {
    const TrialFile file(Open("shared", O_RDWR | O_CREAT));
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    void* at = MAP_FAILED;
    if (ftruncate(file.get(), static_cast<off_t>(page)) == 0) {
      at = mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    }
    if (at == MAP_FAILED) {
      return Say(Weight::kFatal, "cannot be mapped as shared memory, which SQLite's store needs",
                 Words(errno), kElsewhere);
    }
    munmap(at, page);
  }

  void TryLargeFile() {
    struct rlimit limit = {};
    // Beyond it a signal ends the process; preflight.cc says that there is one.
    if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur != RLIM_INFINITY) return;
    const TrialFile file(Open("large", O_RDWR | O_CREAT));
    if (file.get() < 0 || ftruncate(file.get(), kLargeFile) == 0) return;
    if (errno != EFBIG) return;  // no sparse files, or a quota: the free space says enough
    Say(Weight::kDoubtful,
        "takes no file larger than 4 GB; a snapshot is one of 8 bytes a parameter", Words(errno),
        kElsewhere);
  }

  int Open(absl::string_view name, int flags) const {
    return open(absl::StrCat(scratch_, "/", name).c_str(), flags | O_CLOEXEC, 0600);
  }

  Files& files_;
  const std::string dir_;
  const std::string scratch_;
  std::vector<Finding> findings_;
};

}  // namespace

std::string ExistingFolder(const std::string& dir) {
  std::filesystem::path place = dir;
  std::error_code error;
  while (!std::filesystem::exists(place, error) && place.has_relative_path()) {
    place = place.parent_path();
  }
  return place.string();
}

std::vector<Finding> CheckFolder(Files& files, const std::string& dir, FolderUse use) {
  const std::string place = ExistingFolder(dir);
  const absl::StatusOr<std::unique_ptr<ScratchFolder>> scratch =
      ScratchFolder::Make((std::filesystem::path(place) / ".atoll-try").string());
  if (!scratch.ok()) {
    return {{Weight::kFatal,
             absl::StrCat("folder: ", dir, " cannot be worked in (", scratch.status().message(),
                          "); ", kElsewhere, ", and one that this user may write to")}};
  }
  std::vector<Finding> findings = FolderTrial(files, dir, (*scratch)->path()).Run(use);
  if (findings.empty()) {
    findings.push_back(
        {Weight::kGood,
         absl::StrCat("folder: modes, ", use == FolderUse::kPeer ? "sockets" : "mappings",
                      ", renames, syncs and locks work in ", dir)});
  }
  return findings;
}

absl::Status FolderIsFit(Files& files, const std::string& dir, FolderUse use) {
  std::vector<std::string> fatal;
  for (const Finding& finding : CheckFolder(files, dir, use)) {
    if (finding.weight == Weight::kFatal) fatal.push_back(finding.line);
  }
  return fatal.empty() ? absl::OkStatus()
                       : absl::FailedPreconditionError(absl::StrJoin(fatal, "; "));
}

}  // namespace atolld
