#include "daemon/transport/bind_probe.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace atolld {
namespace {

absl::Status InUse(const std::string& address) {
  return absl::FailedPreconditionError(
      absl::StrCat("cannot listen on ", address, ": the address is in use"));
}

// False when the path does not fit.
bool UnixAddress(const std::string& address, sockaddr_un* out) {
  const absl::string_view path = absl::string_view(address).substr(std::strlen("unix:"));
  *out = {};
  out->sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(out->sun_path)) return false;
  std::memcpy(out->sun_path, path.data(), path.size());
  return true;
}

int BindOnce(int family, const sockaddr* address, socklen_t size) {
  const int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return errno;
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  const int error = bind(fd, address, size) == 0 ? 0 : errno;
  close(fd);
  return error;
}

}  // namespace

absl::Status CannotListen(const std::string& address, int error) {
  if (error == EADDRINUSE) return InUse(address);
  const std::string text =
      absl::StrCat("cannot listen on ", address, ": ", std::generic_category().message(error));
  if (error == EACCES || error == EPERM) return absl::PermissionDeniedError(text);
  return absl::FailedPreconditionError(text);
}

absl::Status CheckListenAddress(const std::string& address) {
  if (!absl::StartsWith(address, "unix:")) {
    const size_t colon = address.rfind(':');
    if (colon != std::string::npos && colon + 1 < address.size()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("cannot listen on ", address, ": it is not of the form host:port"));
  }
  sockaddr_un target;
  if (!UnixAddress(address, &target)) return WhyNotBound(address);
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return absl::OkStatus();
  const bool answered =
      connect(fd, reinterpret_cast<const sockaddr*>(&target), sizeof(target)) == 0;
  close(fd);
  return answered ? InUse(address) : absl::OkStatus();
}

absl::Status MakeSocketPrivate(const std::string& address) {
  const std::string path = address.substr(std::strlen("unix:"));
  return chmod(path.c_str(), S_IRUSR | S_IWUSR) == 0 ? absl::OkStatus()
                                                     : CannotListen(address, errno);
}

absl::Status WhyNotBound(const std::string& address) {
  sockaddr_un target;
  if (!UnixAddress(address, &target)) {
    return absl::InvalidArgumentError(absl::StrCat("cannot listen on ", address, ": the path of a ",
                                                   "socket has 1 to ", sizeof(target.sun_path) - 1,
                                                   " characters"));
  }
  const int error = BindOnce(AF_UNIX, reinterpret_cast<const sockaddr*>(&target), sizeof(target));
  if (error == 0) unlink(target.sun_path);
  return CannotListen(address, error == 0 ? EADDRINUSE : error);
}

}  // namespace atolld
