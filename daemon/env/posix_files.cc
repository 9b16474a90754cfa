#include "daemon/env/posix_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compression/base/last_words.h"
#include "compression/base/status_macros.h"

namespace atolld {
namespace {

// Linux moves at most 0x7ffff000 bytes a call; staying well below keeps ssize_t arithmetic plain.
constexpr size_t kLargestTransfer = size_t{1} << 30;
constexpr mode_t kFileMode = 0644;
constexpr mode_t kPrivateMode = 0600;
constexpr mode_t kForOthers = 0077;
constexpr mode_t kDirectoryMode = 0755;

template <typename Call>
auto RetryOnSignal(Call call) {
  for (;;) {
    const auto result = call();
    if (result != -1 || errno != EINTR) return result;
  }
}

std::string ErrorText(int error) { return std::generic_category().message(error); }

[[noreturn]] void DieOfFailedSync(const std::string& path, int error) {
  LastWords(absl::StrCat(path, ": fsync failed: ", ErrorText(error),
                         ". What was written may be lost and cannot be written again; ending the "
                         "process.\n"));
  std::abort();
}

absl::Time MonotonicNow() {
  return absl::UnixEpoch() + absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
}

class PosixWritableFile final : public WritableFile {
 public:
  PosixWritableFile(std::string path, int fd, std::shared_ptr<SyncTimes> sync_times)
      : path_(std::move(path)), file_(fd), sync_times_(std::move(sync_times)) {}

  absl::Status Append(absl::Span<const uint8_t> bytes) override {
    while (!bytes.empty()) {
      const size_t size = std::min(bytes.size(), kLargestTransfer);
      const ssize_t written = RetryOnSignal([&] { return write(file_.get(), bytes.data(), size); });
      if (written < 0) return ErrnoStatus(errno, path_, "cannot write");
      bytes.remove_prefix(static_cast<size_t>(written));
      unsynced_ += static_cast<uint64_t>(written);
    }
    return absl::OkStatus();
  }

  absl::Status Sync() override {
    const absl::Time began = MonotonicNow();
    if (RetryOnSignal([&] { return fdatasync(file_.get()); }) != 0) DieOfFailedSync(path_, errno);
    const absl::Time now = MonotonicNow();
    sync_times_->Add(now, path_, now - began, std::exchange(unsynced_, 0));
    return absl::OkStatus();
  }

 private:
  const std::string path_;
  const Descriptor file_;
  const std::shared_ptr<SyncTimes> sync_times_;
  uint64_t unsynced_ = 0;  // bytes
};

class PosixReadableFile final : public ReadableFile {
 public:
  PosixReadableFile(std::string path, int fd, uint64_t size)
      : path_(std::move(path)), file_(fd), size_(size) {}

  uint64_t size() const override { return size_; }

  absl::Status ReadAt(uint64_t offset, absl::Span<uint8_t> out) const override {
    const uint64_t begin = offset;
    const size_t wanted = out.size();
    while (!out.empty()) {
      const size_t size = std::min(out.size(), kLargestTransfer);
      const ssize_t got = RetryOnSignal(
          [&] { return pread(file_.get(), out.data(), size, static_cast<off_t>(offset)); });
      if (got < 0) return ErrnoStatus(errno, path_, "cannot read");
      if (got == 0) {
        return absl::OutOfRangeError(absl::StrCat(path_, ": ends at byte ", offset, "; ", wanted,
                                                  " bytes at ", begin, " were asked for"));
      }
      out.remove_prefix(static_cast<size_t>(got));
      offset += static_cast<uint64_t>(got);
    }
    return absl::OkStatus();
  }

 private:
  const std::string path_;
  const Descriptor file_;
  const uint64_t size_;
};

}  // namespace

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  Reset();
  fd_ = std::exchange(other.fd_, -1);
  return *this;
}

void Descriptor::Reset() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

absl::Status CheckRoomFor(const std::string& path, uint64_t bytes) {
  const std::string parent = DirectoryOf(path);
  struct statvfs disk = {};
  if (statvfs(parent.c_str(), &disk) != 0) return absl::OkStatus();
  const uint64_t free = uint64_t{disk.f_bavail} * disk.f_frsize;
  if (free >= bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      path, " needs ", bytes, " bytes, and the disk of ", parent, " has ", free, " free"));
}

absl::StatusOr<Pipe> MakePipe(const std::string& user) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return ErrnoStatus(errno, user, "cannot make a pipe");
  return Pipe{Descriptor(ends[0]), Descriptor(ends[1])};
}

absl::Status ErrnoStatus(int error, absl::string_view path, absl::string_view what) {
  const std::string text = absl::StrCat(path, ": ", what, ": ", ErrorText(error));
  switch (error) {
    case ENOENT:
      return absl::NotFoundError(text);
    case ENOSPC:
    case EDQUOT:
      return absl::ResourceExhaustedError(text);
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::PermissionDeniedError(text);
    default:
      return absl::UnknownError(text);
  }
}

absl::StatusOr<std::unique_ptr<WritableFile>> PosixFiles::OpenToWrite(const std::string& path,
                                                                      int flags) {
  const int fd = RetryOnSignal(
      [&] { return open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | flags, kFileMode); });
  if (fd < 0) return ErrnoStatus(errno, path, "cannot open for writing");
  return std::make_unique<PosixWritableFile>(path, fd, sync_times_);
}

absl::StatusOr<std::unique_ptr<WritableFile>> PosixFiles::Create(const std::string& path) {
  return OpenToWrite(path, O_TRUNC);
}

absl::StatusOr<std::unique_ptr<WritableFile>> PosixFiles::CreatePrivate(const std::string& path) {
  const int fd = RetryOnSignal(
      [&] { return open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_TRUNC, kPrivateMode); });
  if (fd < 0) return ErrnoStatus(errno, path, "cannot open for writing");
  auto file = std::make_unique<PosixWritableFile>(path, fd, sync_times_);
  // One that was there keeps its mode at open.
  if (fchmod(fd, kPrivateMode) != 0) return ErrnoStatus(errno, path, "cannot be made private");
  return file;
}

absl::StatusOr<bool> PosixFiles::IsPrivate(const std::string& path) {
  struct stat about = {};
  if (stat(path.c_str(), &about) != 0) return ErrnoStatus(errno, path, "cannot ask for its mode");
  return (about.st_mode & kForOthers) == 0;
}

absl::StatusOr<std::unique_ptr<WritableFile>> PosixFiles::OpenToAppend(const std::string& path) {
  return OpenToWrite(path, O_APPEND);
}

absl::StatusOr<std::unique_ptr<ReadableFile>> PosixFiles::OpenToRead(const std::string& path) {
  const int fd = RetryOnSignal([&] { return open(path.c_str(), O_RDONLY | O_CLOEXEC); });
  if (fd < 0) return ErrnoStatus(errno, path, "cannot open");
  struct stat about = {};
  if (fstat(fd, &about) != 0) {
    const int error = errno;
    close(fd);
    return ErrnoStatus(error, path, "cannot ask for its size");
  }
  auto file = std::make_unique<PosixReadableFile>(path, fd, static_cast<uint64_t>(about.st_size));
  if (S_ISDIR(about.st_mode)) return ErrnoStatus(EISDIR, path, "cannot read");
  return file;
}

absl::Status PosixFiles::Rename(const std::string& from, const std::string& to) {
  if (rename(from.c_str(), to.c_str()) == 0) return absl::OkStatus();
  return ErrnoStatus(errno, from, absl::StrCat("cannot rename to ", to));
}

absl::Status PosixFiles::Remove(const std::string& path) {
  if (unlink(path.c_str()) == 0 || errno == ENOENT) return absl::OkStatus();
  if (errno == EISDIR && rmdir(path.c_str()) == 0) return absl::OkStatus();
  return ErrnoStatus(errno, path, "cannot remove");
}

absl::Status PosixFiles::Truncate(const std::string& path, uint64_t size) {
  if (RetryOnSignal([&] { return truncate(path.c_str(), static_cast<off_t>(size)); }) == 0) {
    return absl::OkStatus();
  }
  return ErrnoStatus(errno, path, absl::StrCat("cannot cut to ", size, " bytes"));
}

// Syncs the name of a new directory in its parent.
absl::Status PosixFiles::SyncParent(const std::string& directory) {
  const absl::Status synced = SyncDirectory(DirectoryOf(directory));
  // One that may be written but not read cannot be opened, and so not synced.
  return absl::IsPermissionDenied(synced) ? absl::OkStatus() : synced;
}

absl::Status PosixFiles::MakeDirectories(const std::string& path) {
  size_t end = 0;
  while (end != std::string::npos) {
    end = path.find('/', end + 1);
    const std::string part = path.substr(0, end);
    if (mkdir(part.c_str(), kDirectoryMode) == 0) {
      RETURN_IF_ERROR(SyncParent(part));
      continue;
    }
    if (errno == EEXIST) continue;
    // A read-only or forbidden parent is no obstacle where the directory is there already.
    const int error = errno;
    struct stat about = {};
    if (stat(part.c_str(), &about) == 0) continue;
    return ErrnoStatus(error, part, "cannot make the directory");
  }
  struct stat about = {};
  if (stat(path.c_str(), &about) != 0) return ErrnoStatus(errno, path, "cannot make the directory");
  if (!S_ISDIR(about.st_mode)) return ErrnoStatus(ENOTDIR, path, "cannot make the directory");
  return absl::OkStatus();
}

absl::Status PosixFiles::SyncDirectory(const std::string& directory) {
  const int fd =
      RetryOnSignal([&] { return open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
  if (fd < 0) return ErrnoStatus(errno, directory, "cannot open to sync");
  const Descriptor closer(fd);
  // EINVAL: this file system has no way to sync a directory; there is nothing more to be had from
  // it.
  const absl::Time began = MonotonicNow();
  if (RetryOnSignal([&] { return fsync(fd); }) != 0 && errno != EINVAL) {
    DieOfFailedSync(directory, errno);
  }
  const absl::Time now = MonotonicNow();
  sync_times_->Add(now, directory, now - began, 0);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> PosixFiles::List(const std::string& directory) {
  DIR* const stream = opendir(directory.c_str());
  if (stream == nullptr) return ErrnoStatus(errno, directory, "cannot list");
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = readdir(stream)) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
    errno = 0;
  }
  const int error = errno;
  closedir(stream);
  if (error != 0) return ErrnoStatus(error, directory, "cannot list");
  std::sort(names.begin(), names.end());
  return names;
}

bool PosixFiles::Exists(const std::string& path) {
  struct stat about = {};
  return stat(path.c_str(), &about) == 0;
}

}  // namespace atolld
