#include "daemon/peer/parameter_memory.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "daemon/env/value_memory.h"

namespace atolld {
namespace {

absl::Status MemoryError(uint64_t bytes, const char* call) {
  return absl::ResourceExhaustedError(
      absl::StrCat("memory for the parameters (", bytes, " bytes): ", call, ": ", strerror(errno)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<ParameterMemory>> ParameterMemory::Create(
    uint64_t elements, std::shared_ptr<MemoryFile> file) {
  constexpr uint64_t kMostElements = uint64_t{1} << 40;
  if (elements == 0 || elements > kMostElements) {
    return absl::InvalidArgumentError(
        absl::StrCat("a model of ", elements, " parameters; 1 to 2^40 are possible"));
  }
  const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const uint64_t slot_bytes = (elements * sizeof(float) + page - 1) / page * page;
  const uint64_t bytes = kSlots * slot_bytes;
  if (file == nullptr) {
    ASSIGN_OR_RETURN(file, MemoryFile::Make());
  }
  if (ftruncate(file->fd(), static_cast<off_t>(bytes)) != 0) return MemoryError(bytes, "ftruncate");
  if (file->on_disk()) RETURN_IF_ERROR(ReserveFile(file->fd(), 0, 2 * slot_bytes));
  void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file->fd(), 0);
  if (base == MAP_FAILED) return MemoryError(bytes, "mmap");
  return std::unique_ptr<ParameterMemory>(
      new ParameterMemory(std::move(file), base, elements, slot_bytes));
}

ParameterMemory::ParameterMemory(std::shared_ptr<MemoryFile> file, void* base, uint64_t elements,
                                 uint64_t slot_bytes)
    : file_(std::move(file)), base_(base), elements_(elements), slot_bytes_(slot_bytes) {}

ParameterMemory::~ParameterMemory() { munmap(base_, kSlots * slot_bytes_); }

absl::Status ParameterMemory::Need(uint64_t slot) const {
  if (!file_->on_disk() || reserved_[slot]) return absl::OkStatus();
  RETURN_IF_ERROR(ReserveFile(file_->fd(), slot * slot_bytes_, slot_bytes_));
  reserved_[slot] = true;
  return absl::OkStatus();
}

void ParameterMemory::Release() const {
  if (file_->on_disk()) madvise(base_, kSlots * slot_bytes_, MADV_DONTNEED);
}

absl::Span<float> ParameterMemory::Slot(uint64_t slot) const {
  char* begin = static_cast<char*>(base_) + slot * slot_bytes_;
  return absl::MakeSpan(reinterpret_cast<float*>(begin), elements_);
}

absl::Span<float> ParameterMemory::theta() const { return Slot(0); }
absl::Span<const float> ParameterMemory::update() const { return Slot(1); }
absl::Span<float> ParameterMemory::writable_update() const { return Slot(1); }
absl::Span<float> ParameterMemory::control() const { return Slot(2); }
absl::Span<float> ParameterMemory::guess() const { return Slot(3); }

std::string ParameterMemory::path() const {
  return absl::StrCat("/proc/", getpid(), "/fd/", file_->fd());
}

}  // namespace atolld
