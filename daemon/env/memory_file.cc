#include "daemon/env/memory_file.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "daemon/env/value_memory.h"

namespace atolld {
namespace {

// linux/memfd.h, since 6.3; a system may be set to refuse memory without it (vm.memfd_noexec).
constexpr unsigned kNoExecution = 0x0008U;

}  // namespace

absl::StatusOr<std::shared_ptr<MemoryFile>> MemoryFile::Make(const std::string& folder) {
  if (!folder.empty()) {
    ASSIGN_OR_RETURN(const int file, OpenNamelessFile(folder));
    return std::shared_ptr<MemoryFile>(new MemoryFile(file, true));
  }
  int fd = memfd_create("atoll-parameters", MFD_CLOEXEC | kNoExecution);
  if (fd < 0 && errno == EINVAL) fd = memfd_create("atoll-parameters", MFD_CLOEXEC);
  if (fd >= 0) return std::shared_ptr<MemoryFile>(new MemoryFile(fd, false));
  return absl::ResourceExhaustedError(
      absl::StrCat("memory to share with a worker: memfd_create: ", std::strerror(errno)));
}

MemoryFile::~MemoryFile() { close(fd_); }

std::string MemoryFile::variable() const {
  struct stat about = {};
  if (fstat(fd_, &about) != 0) return "";
  return absl::StrCat(kDescriptor, ":", about.st_dev, ":", about.st_ino);
}

}  // namespace atolld
