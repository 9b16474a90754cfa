#include "tests/wan/tun_device.h"

#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"

namespace atolld {
namespace {

absl::Status Refused(const std::string& what) {
  return absl::FailedPreconditionError(absl::StrCat(what, ": ", std::strerror(errno)));
}

absl::Status EnterNamespace(const std::string& path) {
  if (path == "-") return absl::OkStatus();
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return absl::NotFoundError(absl::StrCat(path, ": ", std::strerror(errno)));
  const absl::Status entered =
      setns(fd, CLONE_NEWNET) == 0 ? absl::OkStatus() : Refused(absl::StrCat("setns ", path));
  close(fd);
  return entered;
}

}  // namespace

absl::StatusOr<TunDevice> TunDevice::Open(const std::string& namespace_path,
                                          const std::string& name) {
  RETURN_IF_ERROR(EnterNamespace(namespace_path));
  ifreq request{};
  if (name.empty() || name.size() >= sizeof request.ifr_name) {
    return absl::InvalidArgumentError(absl::StrCat("'", name, "' is no name of an interface"));
  }
  std::memcpy(request.ifr_name, name.data(), name.size());
  request.ifr_flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR;
  TunDevice device(open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC));
  if (device.fd_ < 0) return Refused("/dev/net/tun");
  if (ioctl(device.fd_, TUNSETIFF, &request) != 0) return Refused(absl::StrCat("TUN ", name));
  // Checksums are left to the receiving kernel, which takes them as right.
  constexpr unsigned long kOffloads = TUN_F_CSUM | TUN_F_TSO4;
  if (ioctl(device.fd_, TUNSETOFFLOAD, kOffloads) != 0) return Refused("TUN offloads");
  return device;
}

TunDevice::TunDevice(TunDevice&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }

TunDevice::~TunDevice() {
  if (fd_ >= 0) close(fd_);
}

size_t TunDevice::Read(absl::Span<uint8_t> buffer) {
  const ssize_t size = read(fd_, buffer.data(), buffer.size());
  return size > 0 ? static_cast<size_t>(size) : 0;
}

void TunDevice::Write(absl::Span<const uint8_t> frame) {
  const ssize_t written = write(fd_, frame.data(), frame.size());
  static_cast<void>(written);  // lost, as on any network
}

}  // namespace atolld
