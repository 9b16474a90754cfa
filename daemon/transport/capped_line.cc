#include "daemon/transport/capped_line.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <utility>

#include "compression/base/status_macros.h"
#include "daemon/transport/channels.h"

namespace atolld {
namespace {

// Returns 0 if it is not a socket.
ino_t InodeOf(int fd) {
  struct stat found {};
  return fstat(fd, &found) == 0 && S_ISSOCK(found.st_mode) ? found.st_ino : 0;
}

}  // namespace

absl::StatusOr<bool> CappedLine::SetCaps(uint64_t up_cap, uint64_t down_cap) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (relay_ != nullptr) {
    relay_->SetCaps(up_cap, down_cap);
    return false;
  }
  if (up_cap == 0 && down_cap == 0) return false;
  ASSIGN_OR_RETURN(relay_, LineRelay::Start(up_cap, down_cap));
  CutDirectLocked();
  return true;
}

bool CappedLine::relays() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return relay_ != nullptr;
}

// gRPC may have closed one meanwhile, and the number may belong to another file by now; the stored
// inode shows that.
void CappedLine::CutDirectLocked() {
  for (const auto& [fd, inode] : direct_) {
    const Socket copy(fcntl(fd, F_DUPFD_CLOEXEC, 0));
    if (copy.get() >= 0 && InodeOf(copy.get()) == inode) shutdown(copy.get(), SHUT_RDWR);
  }
  direct_.clear();
}

absl::StatusOr<std::string> CappedLine::TargetOf(const std::string& address,
                                                 const std::string& numbers, bool first) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (relay_ == nullptr) return atolld::TargetOf(numbers.empty() ? address : numbers);
  return relay_->Through(address, first);
}

absl::StatusOr<Socket> CappedLine::Accepted(Socket accepted) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (relay_ != nullptr) return relay_->Take(std::move(accepted));
  direct_[accepted.get()] = InodeOf(accepted.get());
  return accepted;
}

}  // namespace atolld
