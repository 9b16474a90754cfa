#include "worker/data/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace atolld {

absl::StatusOr<MappedFile> MappedFile::Open(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    return absl::NotFoundError(absl::StrCat("data: ", path, ": ", std::strerror(errno)));
  }
  struct stat info;
  const bool known = ::fstat(file, &info) == 0;
  MappedFile mapped;
  absl::Status status;
  if (!known || !S_ISREG(info.st_mode)) {
    status = absl::InvalidArgumentError(absl::StrCat("data: ", path, " is not a regular file"));
  } else if (info.st_size > 0) {
    const auto size = static_cast<size_t>(info.st_size);
    void* at = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
    if (at == MAP_FAILED) {
      status =
          absl::UnavailableError(absl::StrCat("data: mmap ", path, ": ", std::strerror(errno)));
    } else {
      mapped.bytes_ = absl::MakeConstSpan(static_cast<const uint8_t*>(at), size);
    }
  }
  ::close(file);
  if (!status.ok()) return status;
  return mapped;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<uint8_t*>(bytes_.data()), bytes_.size());
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

}  // namespace atolld
