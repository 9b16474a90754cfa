#include "daemon/env/value_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"

namespace atolld {
namespace {

absl::Status Exhausted(absl::string_view what, int error) {
  return absl::ResourceExhaustedError(absl::StrCat(what, ": ", std::strerror(error)));
}

// For file systems without O_TMPFILE, such as NFS.
absl::StatusOr<int> OpenAndRemove(const std::string& folder) {
  std::string path = absl::StrCat(folder, "/values.XXXXXX");
  const int fd = mkostemp(path.data(), O_CLOEXEC);
  if (fd < 0) return Exhausted(absl::StrCat(folder, ": a file for values"), errno);
  unlink(path.c_str());
  return fd;
}

}  // namespace

absl::StatusOr<int> OpenNamelessFile(const std::string& folder) {
  const int fd = open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd >= 0) return fd;
  if (errno == EOPNOTSUPP || errno == EISDIR || errno == ENOSYS) return OpenAndRemove(folder);
  return Exhausted(absl::StrCat(folder, ": a file for values"), errno);
}

absl::Status ReserveFile(int fd, uint64_t offset, uint64_t bytes) {
  int error = 0;
  do {
    error = posix_fallocate(fd, static_cast<off_t>(offset), static_cast<off_t>(bytes));
  } while (error == EINTR);
  if (error == 0) return absl::OkStatus();
  return Exhausted(absl::StrCat("a file of ", bytes, " bytes for values"), error);
}

absl::StatusOr<std::unique_ptr<ValueMemory>> ValueMemory::Make(uint64_t elements,
                                                               const std::string& folder) {
  const uint64_t bytes = std::max<uint64_t>(elements, 1) * sizeof(float);
  const bool in_file = !folder.empty();
  int fd = -1;
  if (in_file) {
    ASSIGN_OR_RETURN(fd, OpenNamelessFile(folder));
    const absl::Status reserved = ReserveFile(fd, 0, bytes);
    if (!reserved.ok()) {
      close(fd);
      return absl::ResourceExhaustedError(absl::StrCat(folder, ": ", reserved.message()));
    }
  }
  const int flags = in_file ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
  void* const base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
  const int error = errno;
  if (fd >= 0) close(fd);  // The mapping keeps the file.
  if (base == MAP_FAILED) return Exhausted(absl::StrCat(bytes, " bytes for values: mmap"), error);
  return std::unique_ptr<ValueMemory>(new ValueMemory(
      absl::MakeSpan(static_cast<float*>(base), static_cast<size_t>(elements)), bytes, in_file));
}

ValueMemory::~ValueMemory() { munmap(values_.data(), bytes_); }

void ValueMemory::Release() const {
  if (in_file_) madvise(values_.data(), bytes_, MADV_DONTNEED);
}

}  // namespace atolld
