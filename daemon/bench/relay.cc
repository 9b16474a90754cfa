#include "daemon/bench/relay.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace atolld {
namespace {

constexpr size_t kBufferBytes = 64 << 10;  // one direction of one connection
constexpr int kBacklog = 128;
constexpr int kTurns = 16;  // buffers moved before the next connection, or a Hold, has its turn

sockaddr_in Loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

absl::Status SystemError(absl::string_view what) {
  return absl::UnknownError(absl::StrCat("relay: ", what, ": ", std::strerror(errno)));
}

// Small messages pass at once, as they would without a relay.
void DoNotDelay(int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

// Closes so that the other end sees a reset and not an orderly end.
void Reset(int fd) {
  if (fd < 0) return;
  const linger now{1, 0};
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
  close(fd);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Relay>> Relay::Open(int target_port, Origin origin) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (listener < 0) return SystemError("socket");
  sockaddr_in address = Loopback(0);
  socklen_t length = sizeof address;
  if (bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      listen(listener, kBacklog) != 0 ||
      getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    const absl::Status error = SystemError("listening");
    close(listener);
    return error;
  }
  const int wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake < 0) {
    const absl::Status error = SystemError("eventfd");
    close(listener);
    return error;
  }
  return std::unique_ptr<Relay>(
      new Relay(listener, wake, ntohs(address.sin_port), target_port, std::move(origin)));
}

Relay::Relay(int listener, int wake, int port, int target_port, Origin origin)
    : listener_(listener),
      wake_(wake),
      port_(port),
      target_port_(target_port),
      origin_(std::move(origin)),
      thread_([this] { Run(); }) {}

Relay::~Relay() {
  Change([this] { stop_ = true; });
  thread_.join();
  for (Connection& connection : connections_) Abort(&connection);
  close(listener_);
  close(wake_);
}

std::string Relay::address() const { return absl::StrCat("127.0.0.1:", port_); }

void Relay::Hold() {
  Change([this] { hold_all_ = true; });
}

void Relay::HoldFrom(const std::string& origin) {
  Change([this, &origin] { held_origins_.insert(origin); });
}

void Relay::Resume() {
  Change([this] {
    hold_all_ = false;
    held_origins_.clear();
  });
}

bool Relay::holding() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return hold_all_ || !held_origins_.empty();
}

// The thread forwards only with the mutex held and looks at the holds first: when this returns no
// byte passes any more.
void Relay::Change(const std::function<void()>& change) {
  const std::lock_guard<std::mutex> lock(mutex_);
  change();
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_, &one, sizeof one);
}

bool Relay::Held(const Connection& connection) const {
  return hold_all_ || (!connection.origin.empty() && held_origins_.count(connection.origin) > 0);
}

void Relay::Run() {
  std::vector<pollfd> polled;
  while (true) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (stop_) return;
      polled.assign({{wake_, POLLIN, 0}, {hold_all_ ? -1 : listener_, POLLIN, 0}});
      for (const Connection& one : connections_) {
        const auto interest = [&](const Flow& in, const Flow& out) {
          int events = in.empty() && !in.source_ended && !one.connecting ? POLLIN : 0;
          if (!out.empty()) events |= POLLOUT;
          return events;
        };
        const int client = interest(one.up, one.down);
        const int server = one.connecting ? POLLOUT : interest(one.down, one.up);
        // Nothing wanted: not polled, or a hang-up would be reported over and over.
        polled.push_back(
            {Held(one) || client == 0 ? -1 : one.client, static_cast<short>(client), 0});
        polled.push_back(
            {Held(one) || server == 0 ? -1 : one.server, static_cast<short>(server), 0});
      }
    }
    poll(polled.data(), polled.size(), -1);
    const std::lock_guard<std::mutex> lock(mutex_);
    uint64_t wakes = 0;
    [[maybe_unused]] const ssize_t drained = read(wake_, &wakes, sizeof wakes);
    size_t i = 2;
    for (auto it = connections_.begin(); it != connections_.end(); i += 2) {
      Connection& one = *it;
      if (!Held(one)) Serve(&one, polled[i].revents, polled[i + 1].revents);
      const bool over = one.broken || (one.up.sink_ended && one.down.sink_ended);
      if (over) Abort(&one);
      it = over ? connections_.erase(it) : std::next(it);
    }
    if (!hold_all_ && polled[1].revents != 0) Accept();
  }
}

void Relay::Accept() {
  sockaddr_in from{};
  socklen_t length = sizeof from;
  const int client =
      accept4(listener_, reinterpret_cast<sockaddr*>(&from), &length, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (client < 0) return;
  Connection one;
  one.client = client;
  if (origin_) one.origin = origin_(ntohs(from.sin_port), port_);
  one.server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  DoNotDelay(one.client);
  DoNotDelay(one.server);
  const sockaddr_in to = Loopback(target_port_);
  if (connect(one.server, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0) {
    one.connecting = false;
  } else if (errno != EINPROGRESS) {
    return Abort(&one);
  }
  one.up.buffer.resize(kBufferBytes);
  one.down.buffer.resize(kBufferBytes);
  connections_.push_back(std::move(one));
}

void Relay::Serve(Connection* one, short client_events, short server_events) {
  if (client_events == 0 && server_events == 0) return;
  if (one->connecting) {
    int error = 0;
    socklen_t length = sizeof error;
    getsockopt(one->server, SOL_SOCKET, SO_ERROR, &error, &length);
    if (error != 0) {
      one->broken = true;  // refused there, refused here
      return;
    }
    one->connecting = false;
  }
  one->broken =
      !Pump(&one->up, one->client, one->server) || !Pump(&one->down, one->server, one->client);
}

// Moves what can be moved now. False: an end was reset.
bool Relay::Pump(Flow* flow, int from, int to) {
  for (int turn = 0; turn < kTurns; ++turn) {
    if (flow->empty() && !flow->source_ended) {
      const ssize_t got = recv(from, flow->buffer.data(), flow->buffer.size(), 0);
      if (got < 0) return errno == EAGAIN || errno == EINTR;
      flow->begin = 0;
      flow->end = static_cast<size_t>(got);
      flow->source_ended = got == 0;
    }
    if (flow->empty()) {
      if (flow->source_ended && !flow->sink_ended) {
        flow->sink_ended = true;
        shutdown(to, SHUT_WR);
      }
      return true;
    }
    const ssize_t sent =
        send(to, flow->buffer.data() + flow->begin, flow->end - flow->begin, MSG_NOSIGNAL);
    if (sent < 0) return errno == EAGAIN || errno == EINTR;
    flow->begin += static_cast<size_t>(sent);
  }
  return true;
}

void Relay::Abort(Connection* connection) {
  const bool orderly = connection->up.sink_ended && connection->down.sink_ended;
  for (const int fd : {connection->client, connection->server}) {
    if (orderly) {
      close(fd);
    } else {
      Reset(fd);
    }
  }
}

}  // namespace atolld
