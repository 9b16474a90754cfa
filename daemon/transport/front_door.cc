#include "daemon/transport/front_door.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "compression/base/check.h"
#include "compression/base/status_macros.h"

namespace atolld {
namespace {

// With no descriptor left connections stay with the kernel for so long before the next look.
constexpr int kFullMilliseconds = 100;

size_t MostDescriptors() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 512;
  return static_cast<size_t>(limit.rlim_cur / 4 * 3);
}

bool IsFull(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

}  // namespace

absl::StatusOr<std::unique_ptr<FrontDoor>> FrontDoor::Open(const std::string& address) {
  ASSIGN_OR_RETURN(TcpListeners listeners, ListenTcp(address));
  Socket stop(eventfd(0, EFD_CLOEXEC));
  if (stop.get() < 0) return absl::ResourceExhaustedError("no descriptor is left");
  return std::unique_ptr<FrontDoor>(
      new FrontDoor(std::move(listeners), std::move(stop), MostDescriptors()));
}

FrontDoor::FrontDoor(TcpListeners listeners, Socket stop, size_t most)
    : listeners_(std::move(listeners)), stop_(std::move(stop)), most_(most) {}

void FrontDoor::Start(std::unique_ptr<Taker> taker) {
  taker_ = std::move(taker);
  thread_ = std::thread([this] { Run(); });
}

FrontDoor::~FrontDoor() {
  if (!thread_.joinable()) return;
  const uint64_t one = 1;
  CHECK(write(stop_.get(), &one, sizeof one) == sizeof one);
  thread_.join();
}

void FrontDoor::Run() {
  std::vector<pollfd> all = {{stop_.get(), POLLIN, 0}};
  for (const Socket& socket : listeners_.sockets) all.push_back({socket.get(), POLLIN, 0});
  bool full = false;
  while (true) {
    // While it is full only the end is waited for.
    const size_t watched = full ? 1 : all.size();
    if (poll(all.data(), watched, full ? kFullMilliseconds : -1) < 0 && errno != EINTR) return;
    if (all[0].revents != 0) return;
    full = false;
    for (const Socket& socket : listeners_.sockets) full = !AcceptAll(socket.get()) || full;
  }
}

// False: no descriptor is left.
bool FrontDoor::AcceptAll(int listener) {
  while (true) {
    Socket accepted(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (accepted.get() < 0) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      return !IsFull(errno);
    }
    if (static_cast<size_t>(accepted.get()) >= most_) continue;  // hangs up
    const int on = 1;
    setsockopt(accepted.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    Taker::NewConnectionParameters connection;
    connection.listener_fd = listener;
    connection.fd = accepted.Release();
    taker_->HandleNewConnection(&connection);
  }
}

}  // namespace atolld
