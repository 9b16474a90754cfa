#include "daemon/transport/sockets.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <openssl/crypto.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "compression/base/pasted.h"
#include "compression/base/status_macros.h"
#include "daemon/transport/connection_failure.h"

namespace atolld {
namespace {

constexpr int kBacklog = 1024;  // a crowd that dials at once; the kernel may allow fewer

bool IsAnyV4(const addrinfo& one) {
  if (one.ai_family != AF_INET) return false;
  return reinterpret_cast<const sockaddr_in*>(one.ai_addr)->sin_addr.s_addr == INADDR_ANY;
}

void SetPort(sockaddr_storage* address, int port) {
  const auto number = htons(static_cast<uint16_t>(port));
  if (address->ss_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(address)->sin6_port = number;
  } else {
    reinterpret_cast<sockaddr_in*>(address)->sin_port = number;
  }
}

int PortOf(int fd) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0) return 0;
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port
                   : reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
}

// Returns 0 and the socket, or the errno.
int ListenOnce(const sockaddr_storage& address, socklen_t length, Socket* out) {
  Socket made(socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1, off = 0;
  setsockopt(made.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (address.ss_family == AF_INET6) {
    setsockopt(made.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  }
  if (made.get() < 0 ||
      bind(made.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0 ||
      listen(made.get(), kBacklog) != 0) {
    return errno;
  }
  *out = std::move(made);
  return 0;
}

}  // namespace

void PrepareTransport() {
  setenv("GRPC_DNS_RESOLVER", "native", /*overwrite=*/0);
  OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, nullptr);
}

absl::StatusOr<TcpAddresses> ResolveTcp(const std::string& address, bool to_listen) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon + 1 == address.size()) {
    return absl::InvalidArgumentError("it is not of the form host:port");
  }
  std::string host = address.substr(0, colon);
  if (absl::StartsWith(host, "[") && absl::EndsWith(host, "]")) {
    host = host.substr(1, host.size() - 2);
  }
  const bool any = to_listen && (host.empty() || host == "*");
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | (to_listen ? AI_PASSIVE : 0);
  addrinfo* found = nullptr;
  const int failure =
      getaddrinfo(any ? nullptr : host.c_str(), address.c_str() + colon + 1, &hints, &found);
  if (failure != 0) {
    return ConnectionError(ConnectionFailure::kNameNotFound, gai_strerror(failure));
  }
  return TcpAddresses(found, &freeaddrinfo);
}

absl::StatusOr<TcpListeners> ListenTcp(const std::string& address) {
  absl::StatusOr<TcpAddresses> addresses = ResolveTcp(address, /*to_listen=*/true);
  if (!addresses.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot listen on ", address, ": ", addresses.status().message()));
  }
  TcpListeners listeners;
  for (const addrinfo* one = addresses->get(); one != nullptr; one = one->ai_next) {
    sockaddr_storage target{};
    std::memcpy(&target, one->ai_addr, one->ai_addrlen);
    if (listeners.port != 0) SetPort(&target, listeners.port);
    Socket made;
    int error = EAFNOSUPPORT;
    if (IsAnyV4(*one)) {
      sockaddr_storage both{};
      both.ss_family = AF_INET6;  // and all zero: any
      SetPort(&both, ntohs(reinterpret_cast<const sockaddr_in*>(&target)->sin_port));
      error = ListenOnce(both, sizeof(sockaddr_in6), &made);
    }
    // A machine without IPv6 says one of these.
    const bool no_v6 = error == EAFNOSUPPORT || error == EADDRNOTAVAIL;
    if (no_v6) error = ListenOnce(target, one->ai_addrlen, &made);
    // The second of "::" and "0.0.0.0" is there with the first.
    if (error == EADDRINUSE && !listeners.sockets.empty()) continue;
    if (error != 0) return CannotListen(address, error);
    if (listeners.port == 0) listeners.port = PortOf(made.get());
    listeners.sockets.push_back(std::move(made));
  }
  return listeners;
}

// -----------------------------------------------------------------------------------------------

namespace {

absl::Status InUse(const std::string& address) {
  return absl::FailedPreconditionError(
      absl::StrCat("cannot listen on ", address, ": the address is in use"));
}

// Returns false if the path does not fit.
bool UnixAddress(const std::string& address, sockaddr_un* out) {
  const absl::string_view path = absl::string_view(address).substr(std::strlen("unix:"));
  *out = {};
  out->sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(out->sun_path)) return false;
  std::memcpy(out->sun_path, path.data(), path.size());
  return true;
}

// gRPC reads "unix:" targets as URIs, and reads lists of them separated by commas.
bool IsPlainTarget(absl::string_view address) {
  return std::all_of(address.begin(), address.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
           absl::string_view("._~+=:@-/").find(c) != absl::string_view::npos;
  });
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
  if (error == EADDRNOTAVAIL) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot listen on ", address,
                     ": it is not an address of this machine; 0.0.0.0 is all that it has"));
  }
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
  if (!IsPlainTarget(address)) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot listen on ", address,
                     ": in the path of a socket only letters, digits and any of . _ ~ + = : @ - / "
                     "may stand; nobody could dial another"));
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

// -----------------------------------------------------------------------------------------------

namespace {

// For ReachOf: every address of a machine, and the addresses that lead back to it.
bool IsWildcardAddress(const addrinfo& one) {
  if (one.ai_family == AF_INET) return IsAnyV4(one);
  if (one.ai_family != AF_INET6) return false;
  return IN6_IS_ADDR_UNSPECIFIED(&reinterpret_cast<const sockaddr_in6*>(one.ai_addr)->sin6_addr);
}

bool IsLoopbackAddress(const addrinfo& one) {
  constexpr uint32_t kLoopbackNet = 127;
  if (one.ai_family == AF_INET) {
    const auto* const v4 = reinterpret_cast<const sockaddr_in*>(one.ai_addr);
    return ntohl(v4->sin_addr.s_addr) >> 24 == kLoopbackNet;
  }
  if (one.ai_family != AF_INET6) return false;
  const in6_addr& v6 = reinterpret_cast<const sockaddr_in6*>(one.ai_addr)->sin6_addr;
  return IN6_IS_ADDR_LOOPBACK(&v6) || (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == kLoopbackNet);
}

}  // namespace

AddressReach ReachOf(const std::string& address) {
  if (absl::StartsWith(address, "unix:")) return AddressReach::kThisMachine;
  const absl::StatusOr<TcpAddresses> addresses = ResolveTcp(address, /*to_listen=*/true);
  if (!addresses.ok()) return AddressReach::kUnknown;
  for (const addrinfo* one = addresses->get(); one != nullptr; one = one->ai_next) {
    if (IsWildcardAddress(*one)) return AddressReach::kWildcard;
    if (IsLoopbackAddress(*one)) return AddressReach::kThisMachine;
  }
  return AddressReach::kBeyond;
}

std::vector<std::string> OwnHosts() {
  std::vector<std::string> hosts;
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return hosts;
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    const bool up = (one->ifa_flags & IFF_RUNNING) != 0 && (one->ifa_flags & IFF_LOOPBACK) == 0;
    char text[NI_MAXHOST];
    if (!up || one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET ||
        getnameinfo(one->ifa_addr, sizeof(sockaddr_in), text, sizeof text, nullptr, 0,
                    NI_NUMERICHOST) != 0) {
      continue;
    }
    hosts.emplace_back(text);
  }
  freeifaddrs(all);
  return hosts;
}

// -----------------------------------------------------------------------------------------------

bool AwaitSocket(int fd, short events, absl::Time end) {
  pollfd polled{fd, events, 0};
  const absl::Duration left = std::max(end - absl::Now(), absl::ZeroDuration());
  return poll(&polled, 1, static_cast<int>(absl::ToInt64Milliseconds(left))) == 1;
}

namespace {

// RFC 8305's Connection Attempt Delay.
constexpr absl::Duration kNextAttempt = absl::Milliseconds(250);

// Returns a form such as "192.0.2.7:7070"; empty if it is not an address of the internet.
std::string AsNumbers(const addrinfo& one) {
  char host[NI_MAXHOST], port[NI_MAXSERV];
  if (getnameinfo(one.ai_addr, one.ai_addrlen, host, sizeof host, port, sizeof port,
                  NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return "";
  }
  return one.ai_family == AF_INET6 ? absl::StrCat("[", host, "]:", port)
                                   : absl::StrCat(host, ":", port);
}

// The families take turns, beginning with the one that the system puts first (RFC 8305, section 4).
std::vector<std::string> InTurns(const addrinfo* found) {
  std::vector<std::string> first, second, turns;
  const int family = found == nullptr ? AF_UNSPEC : found->ai_family;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    std::vector<std::string>& of_family = one->ai_family == family ? first : second;
    const std::string numbers = AsNumbers(*one);
    const bool known = std::find(of_family.begin(), of_family.end(), numbers) != of_family.end();
    if (!numbers.empty() && !known) of_family.push_back(numbers);
  }
  for (size_t i = 0; i < std::max(first.size(), second.size()); ++i) {
    if (i < first.size()) turns.push_back(first[i]);
    if (i < second.size()) turns.push_back(second[i]);
  }
  return turns;
}

absl::StatusOr<std::vector<std::string>> LookUp(const std::string& address) {
  ASSIGN_OR_RETURN(const TcpAddresses found, ResolveTcp(address, /*to_listen=*/false));
  return InTurns(found.get());
}

// A question to the system's name services, which may block without a limit.
struct Lookup {
  std::mutex mutex;
  std::condition_variable answered;
  std::optional<absl::StatusOr<std::vector<std::string>>> answer;  // guarded by mutex
};

// Makes connections side by side.
class Race {
 public:
  Race(absl::Span<const std::string> addresses, absl::Time end)
      : addresses_(addresses), end_(end), why_(ConnectionTimedOut(end - absl::Now())) {}

  absl::StatusOr<TcpConnection> Run() {
    absl::Time begin_next = absl::Now();
    while (next_ < addresses_.size() || !attempts_.empty()) {
      const absl::Time now = absl::Now();
      if (next_ < addresses_.size() && now >= begin_next) {
        const size_t before = attempts_.size();
        if (Begin(addresses_[next_++])) return std::move(won_);
        begin_next = attempts_.size() > before ? now + kNextAttempt : now;
        continue;
      }
      if (now >= end_) break;
      const size_t before = attempts_.size();
      if (Await(next_ < addresses_.size() ? std::min(begin_next, end_) : end_)) {
        return std::move(won_);
      }
      if (attempts_.size() < before) begin_next = now;
    }
    return why_;
  }

 private:
  struct Attempt {
    Socket socket;
    std::string address;
  };

  // True: it is won at once.
  bool Begin(const std::string& address) {
    const absl::StatusOr<TcpAddresses> found = ResolveTcp(address, /*to_listen=*/false);
    if (!found.ok()) return Fail(found.status());
    const addrinfo& to = **found;
    Socket made(socket(to.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (made.get() < 0) return Fail(ConnectionErrorOf(errno));
    const int error = connect(made.get(), to.ai_addr, to.ai_addrlen) == 0 ? 0 : errno;
    if (error != 0 && error != EINPROGRESS) return Fail(ConnectionErrorOf(error));
    if (error == 0) {
      won_ = {std::move(made), address};
      return true;
    }
    attempts_.push_back({std::move(made), address});
    return false;
  }

  // True: one is won. Those that have failed are gone.
  bool Await(absl::Time until) {
    std::vector<pollfd> watched;
    for (const Attempt& one : attempts_) watched.push_back({one.socket.get(), POLLOUT, 0});
    const absl::Duration left = std::max(until - absl::Now(), absl::ZeroDuration());
    poll(watched.data(), watched.size(), static_cast<int>(absl::ToInt64Milliseconds(left)) + 1);
    for (size_t i = watched.size(); i-- > 0;) {
      if (watched[i].revents == 0) continue;
      int error = 0;
      socklen_t length = sizeof error;
      if (getsockopt(watched[i].fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0) error = errno;
      if (error == 0) {
        won_ = {std::move(attempts_[i].socket), attempts_[i].address};
        return true;
      }
      Fail(ConnectionErrorOf(error));
      attempts_.erase(attempts_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    return false;
  }

  // A machine that refuses is there. One whose network has no way to an address (IPv6 often) says
  // less than silence does.
  bool Fail(const absl::Status& why) {
    const auto rank = [](const absl::Status& status) {
      return absl::StartsWith(status.message(), "connection refused") ? 2
             : absl::StartsWith(status.message(), "timed out")        ? 1
                                                                      : 0;
    };
    if (!failed_ || rank(why) > rank(why_)) why_ = why;
    failed_ = true;
    return false;
  }

  const absl::Span<const std::string> addresses_;
  const absl::Time end_;
  size_t next_ = 0;  // of addresses_
  std::vector<Attempt> attempts_;
  TcpConnection won_;
  absl::Status why_;
  bool failed_ = false;
};

}  // namespace

bool IsNumericAddress(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) return false;
  const absl::string_view host = absl::string_view(address).substr(0, colon);
  const bool bracketed = absl::StartsWith(host, "[") && absl::EndsWith(host, "]");
  const std::string inside(bracketed ? host.substr(1, host.size() - 2) : host);
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST;
  addrinfo* found = nullptr;
  if (getaddrinfo(inside.c_str(), nullptr, &hints, &found) != 0) return false;
  freeaddrinfo(found);
  return true;
}

absl::StatusOr<std::vector<std::string>> FindAddresses(const std::string& address, absl::Time end) {
  const std::string clean = CleanPasted(address);
  if (IsNumericAddress(clean)) return LookUp(clean);
  const absl::Duration patience = end - absl::Now();
  const auto lookup = std::make_shared<Lookup>();
  try {
    std::thread([lookup, clean] {
      absl::StatusOr<std::vector<std::string>> answer = LookUp(clean);
      const std::lock_guard<std::mutex> lock(lookup->mutex);
      lookup->answer = std::move(answer);
      lookup->answered.notify_all();
    }).detach();
  } catch (const std::system_error&) {
    return LookUp(clean);  // no thread is left
  }
  std::unique_lock<std::mutex> lock(lookup->mutex);
  const bool answered = lookup->answered.wait_for(lock, absl::ToChronoMilliseconds(patience),
                                                  [&] { return lookup->answer.has_value(); });
  if (answered) return *lookup->answer;
  return ConnectionError(
      ConnectionFailure::kTimedOut,
      absl::StrCat("no name server has answered in ", absl::FormatDuration(patience)));
}

absl::StatusOr<TcpConnection> ConnectToFirst(absl::Span<const std::string> addresses,
                                             absl::Time end) {
  return Race(addresses, end).Run();
}

absl::StatusOr<Socket> ConnectTcp(const std::string& address, absl::Time end) {
  ASSIGN_OR_RETURN(const std::vector<std::string> addresses, FindAddresses(address, end));
  ASSIGN_OR_RETURN(TcpConnection made, ConnectToFirst(addresses, end));
  return std::move(made.socket);
}

absl::StatusOr<absl::Duration> ProbeConnect(const std::string& address, absl::Duration patience) {
  const absl::Time begun = absl::Now();
  RETURN_IF_ERROR(ConnectTcp(address, begun + patience).status());
  return absl::Now() - begun;
}

absl::Status ProbeOwnAddress(const std::string& listen, const std::string& advertise,
                             const std::string& nonce, absl::Duration patience) {
  ASSIGN_OR_RETURN(const TcpListeners listeners, ListenTcp(listen));
  const int listener = listeners.sockets.front().get();
  const absl::Time end = absl::Now() + patience;
  ASSIGN_OR_RETURN(const Socket sender, ConnectTcp(advertise, end));
  if (send(sender.get(), nonce.data(), nonce.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(nonce.size())) {
    return ConnectionErrorOf(errno);
  }
  // Others may knock meanwhile; who says something else is passed over.
  while (AwaitSocket(listener, POLLIN, end)) {
    const Socket accepted(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    std::string heard;
    char part[256];
    while (heard.size() < nonce.size() && AwaitSocket(accepted.get(), POLLIN, end)) {
      const ssize_t got = recv(accepted.get(), part, sizeof part, 0);
      if (got <= 0) break;
      heard.append(part, static_cast<size_t>(got));
    }
    if (heard == nonce) return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat("somebody else answers at ", advertise, ", or it does not lead here"));
}

}  // namespace atolld
