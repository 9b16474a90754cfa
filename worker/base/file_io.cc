#include "worker/base/file_io.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "compression/base/last_words.h"
#include "compression/base/status_macros.h"

namespace atolld {
namespace {

constexpr size_t kLargestCall = 1u << 30;  // Linux moves at most 2 GiB a call

// An open file that closes itself.
class File {
 public:
  File(const std::string& path, int flags)
      : descriptor_(::open(path.c_str(), flags | O_CLOEXEC, 0644)) {}
  ~File() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  bool ok() const { return descriptor_ >= 0; }
  int descriptor() const { return descriptor_; }

 private:
  const int descriptor_;
};

absl::Status SystemError(const std::string& path, absl::string_view call) {
  const int error = errno;
  const std::string message = absl::StrCat(path, ": ", call, ": ", std::strerror(error));
  switch (error) {
    case ENOENT:
      return absl::NotFoundError(message);
    case ENOSPC:
    case EDQUOT:
      return absl::ResourceExhaustedError(message);
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::PermissionDeniedError(message);
    default:
      return absl::UnavailableError(message);
  }
}

absl::Status WriteAll(const File& file, const std::string& path, absl::Span<const uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t done =
        ::write(file.descriptor(), bytes.data(), std::min(bytes.size(), kLargestCall));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return SystemError(path, "write");
    bytes.remove_prefix(static_cast<size_t>(done));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status WriteFileDurably(const std::string& path,
                              absl::Span<const absl::Span<const uint8_t>> parts) {
  const std::string temporary = path + ".new";
  const auto write = [&]() -> absl::Status {
    const File file(temporary, O_WRONLY | O_CREAT | O_TRUNC);
    if (!file.ok()) return SystemError(temporary, "open");
    for (const absl::Span<const uint8_t> part : parts) {
      RETURN_IF_ERROR(WriteAll(file, temporary, part));
    }
    return ::fsync(file.descriptor()) == 0 ? absl::OkStatus() : SystemError(temporary, "fsync");
  };
  absl::Status written = write();
  if (written.ok() && ::rename(temporary.c_str(), path.c_str()) != 0) {
    written = SystemError(path, "rename");
  }
  if (!written.ok()) {
    ::unlink(temporary.c_str());
    return written;
  }
  return SyncFolder(std::filesystem::path(path).parent_path().string());
}

absl::Status SyncFolder(const std::string& folder) {
  const File directory(folder.empty() ? "." : folder, O_RDONLY | O_DIRECTORY);
  if (!directory.ok() || ::fsync(directory.descriptor()) != 0) return SystemError(folder, "fsync");
  return absl::OkStatus();
}

absl::StatusOr<std::vector<float>> ReadFloats(const std::string& path, uint64_t offset,
                                              uint64_t elements) {
  const File file(path, O_RDONLY);
  if (!file.ok()) return SystemError(path, "open");
  struct stat info;
  if (::fstat(file.descriptor(), &info) != 0) return SystemError(path, "fstat");
  const auto size = static_cast<uint64_t>(info.st_size);
  if (offset > size || elements > (size - offset) / sizeof(float)) {
    return absl::InvalidArgumentError(absl::StrCat(path, " has ", size, " bytes; ", elements,
                                                   " values from byte ", offset, " need more"));
  }
  std::vector<float> values(elements);
  auto* out = reinterpret_cast<uint8_t*>(values.data());
  size_t left = elements * sizeof(float);
  auto position = static_cast<off_t>(offset);
  while (left > 0) {
    const ssize_t done = ::pread(file.descriptor(), out, std::min(left, kLargestCall), position);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return SystemError(path, "read");
    out += done;
    position += done;
    left -= static_cast<size_t>(done);
  }
  return values;
}

absl::Status ReadExactly(int descriptor, const std::string& origin, absl::Span<uint8_t> out) {
  const size_t wanted = out.size();
  while (!out.empty()) {
    const ssize_t done = ::read(descriptor, out.data(), std::min(out.size(), kLargestCall));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return SystemError(origin, "read");
    if (done == 0) {
      return absl::DataLossError(
          absl::StrCat(origin, " ends after ", wanted - out.size(), " of ", wanted, " bytes"));
    }
    out.remove_prefix(static_cast<size_t>(done));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadWholeFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return absl::NotFoundError(absl::StrCat("cannot read ", path, ": ", std::strerror(errno)));
  }
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    return absl::NotFoundError(absl::StrCat("cannot read ", path, ": it is a folder"));
  }
  return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

namespace {

constexpr size_t kSha256Bytes = 32;

EVP_MD_CTX* Of(void* context) { return static_cast<EVP_MD_CTX*>(context); }

// OpenSSL fails here only if there is no memory.
void Require(bool done) {
  if (!done) std::abort();
}

}  // namespace

Sha256Stream::Sha256Stream() : context_(EVP_MD_CTX_new()) {
  Require(context_ != nullptr && EVP_DigestInit_ex(Of(context_), EVP_sha256(), nullptr) == 1);
}

Sha256Stream::~Sha256Stream() { EVP_MD_CTX_free(Of(context_)); }

Sha256Stream& Sha256Stream::Add(absl::Span<const uint8_t> bytes) {
  Require(EVP_DigestUpdate(Of(context_), bytes.data(), bytes.size()) == 1);
  return *this;
}

Sha256Stream& Sha256Stream::Add(const std::string& text) {
  return Add(absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(text.data()), text.size()));
}

std::string Sha256Stream::Finish() {
  std::string digest(kSha256Bytes, '\0');
  Require(EVP_DigestFinal_ex(Of(context_), reinterpret_cast<uint8_t*>(digest.data()), nullptr) ==
          1);
  return digest;
}

std::string Sha256Of(absl::Span<const uint8_t> bytes) { return Sha256Stream().Add(bytes).Finish(); }

namespace {

// A mapped file, in a list that a signal handler can walk: a place is written before it is
// published, is never freed, and is reused once its file is gone.
struct MappedPlace {
  std::atomic<const uint8_t*> begin{nullptr};  // null: free
  std::atomic<size_t> size{0};
  std::array<char, 512> path{};  // cut if it is longer
  MappedPlace* next = nullptr;
};

// A global, because a handler has no other way to the data that it must read.
std::atomic<MappedPlace*> first_place{nullptr};

MappedPlace* NotePlace(const uint8_t* begin, size_t size, const std::string& path) {
  // Only one thread at a time may take or add places; a handler takes none.
  static absl::Mutex mutex;
  const absl::MutexLock lock(&mutex);
  MappedPlace* place = first_place.load();
  while (place != nullptr && place->begin.load() != nullptr) place = place->next;
  const bool made = place == nullptr;
  if (made) {
    place = new MappedPlace;
    place->next = first_place.load();
  }
  const size_t length = std::min(path.size(), place->path.size() - 1);
  std::memcpy(place->path.data(), path.data(), length);
  place->path[length] = '\0';
  place->size = size;
  place->begin = begin;
  if (made) first_place = place;
  return place;
}

// Calls only what a handler may call.
void OnBusError(int signal, siginfo_t* info, void*) {
  const auto* at = static_cast<const uint8_t*>(info->si_addr);
  for (const MappedPlace* place = first_place.load(); place != nullptr; place = place->next) {
    const uint8_t* begin = place->begin.load();
    if (begin == nullptr || at < begin || at >= begin + place->size.load()) continue;
    LastWords("atoll-worker: data: ");
    LastWords(place->path.data());
    LastWords(
        " was cut short, or its disk failed, while it was read; put it back whole and start "
        "again\n");
    ::_exit(1);
  }
  ::signal(signal, SIG_DFL);  // not of a file: the kernel's own way
}

}  // namespace

void NameTruncatedFiles() {
  struct sigaction action = {};
  action.sa_sigaction = &OnBusError;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &action, nullptr);
}

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
      mapped.place_ = NotePlace(mapped.bytes_.data(), size, path);
    }
  }
  ::close(file);
  if (!status.ok()) return status;
  return mapped;
}

MappedFile::~MappedFile() {
  if (bytes_.empty()) return;
  static_cast<MappedPlace*>(place_)->begin = nullptr;
  ::munmap(const_cast<uint8_t*>(bytes_.data()), bytes_.size());
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : bytes_(std::exchange(other.bytes_, {})), place_(std::exchange(other.place_, nullptr)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  std::swap(place_, other.place_);
  return *this;
}

}  // namespace atolld
