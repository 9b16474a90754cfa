#include "daemon/transport/line_relay.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "compression/base/status_macros.h"
#include "daemon/env/wake_event.h"
#include "daemon/transport/channels.h"

namespace atolld {
namespace {

// The kernel's figures of a connection (TCP_INFO), which go further than the C library's tcp_info;
// a figure that an older kernel does not give is 0.
struct TcpFigures {
  tcp_info first;
  uint64_t pacing_rate, max_pacing_rate, bytes_acked, bytes_received;
  uint32_t segs_out, segs_in, notsent_bytes, min_rtt, data_segs_in, data_segs_out;
  uint64_t delivery_rate, busy_time, rwnd_limited, sndbuf_limited;
  uint32_t delivered, delivered_ce;
  uint64_t bytes_sent, bytes_retrans;
};
static_assert(offsetof(TcpFigures, pacing_rate) == 104 && sizeof(TcpFigures) == 216,
              "the kernel's layout, linux/tcp.h");

// The headers of a packet: Ethernet 14, IPv4 20, TCP with its timestamps 32.
constexpr uint64_t kPacketHeaderBytes = 66;

// The most that is moved in one go, so that no connection keeps the others waiting.
constexpr size_t kMostAtOnce = size_t{64} << 10;

// If less than this much time's worth is allowed, nothing is moved: a thread that wakes for each
// packet would cost more than the packets.
constexpr absl::Duration kLeast = absl::Milliseconds(4);

// The smallest share: short packets would carry more headers than bytes.
constexpr size_t kFewPackets = size_t{6} << 10;

// Connections with priority may use this much of the time to come.
constexpr absl::Duration kFirstAhead = absl::Milliseconds(200);

// The bytes that the kernel may hold for all connections together, received and unread or sent and
// on its way: enough for a round trip of a quarter of a second on one connection.
constexpr uint64_t kHeldPart = 4;  // of a second
constexpr uint64_t kLeastHeld = uint64_t{32} << 10;
constexpr uint64_t kMostHeld = uint64_t{4} << 20;

// A connection that is not made by then is refused; gRPC's back-off tries again.
constexpr absl::Duration kPatience = absl::Seconds(10);

bool IsOwnProcess(int fd) {
  ucred peer{};
  socklen_t length = sizeof peer;
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.pid == getpid();
}

sockaddr_un AbstractAddress(const std::string& name, socklen_t* length) {
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  const size_t size = std::min(name.size(), sizeof at.sun_path - 1);
  std::memcpy(at.sun_path + 1, name.data(), size);
  *length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + size);
  return at;
}

// Gives gRPC's peer the name of the client that it represents. Without the name, calls of different
// peers look as if they came over one connection, and nothing worse happens.
void NameEnd(int end, int accepted) {
  sockaddr_storage from{};
  socklen_t length = sizeof from;
  char host[NI_MAXHOST], port[NI_MAXSERV];
  if (getpeername(accepted, reinterpret_cast<sockaddr*>(&from), &length) != 0 ||
      getnameinfo(reinterpret_cast<sockaddr*>(&from), length, host, sizeof host, port, sizeof port,
                  NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return;
  }
  const bool v6 = std::strchr(host, ':') != nullptr;
  const sockaddr_un at = AbstractAddress(absl::StrCat(kRelayedName, getpid(), "-", end, "/",
                                                      v6 ? "[" : "", host, v6 ? "]:" : ":", port),
                                         &length);
  (void)!bind(end, reinterpret_cast<const sockaddr*>(&at), length);
}

bool WouldBlock(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

}  // namespace

// One direction of one connection.
class LineRelay::Way {
 public:
  Way(int from, int to) : from_(from), to_(to) {}

  bool holds() const { return sent_ < held_.size(); }
  bool over() const { return broken_ || (ended_ && !holds()); }
  bool wants_bytes() const { return !ended_ && !broken_ && !holds(); }

  // Hands on what it holds, then takes up to `most` bytes and hands them on. How many it took.
  size_t Move(size_t most) {
    HandOn();
    if (most == 0 || !wants_bytes()) return 0;
    held_.resize(std::min(most, kMostAtOnce));
    const ssize_t got = recv(from_, held_.data(), held_.size(), MSG_DONTWAIT);
    held_.resize(got > 0 ? static_cast<size_t>(got) : 0);
    sent_ = 0;
    if (got == 0) ended_ = true;
    if (got < 0 && !WouldBlock(errno)) broken_ = true;
    if (got <= 0) return 0;
    HandOn();
    return static_cast<size_t>(got);
  }

  void HandOn() {
    while (holds() && !broken_) {
      const ssize_t put =
          send(to_, held_.data() + sent_, held_.size() - sent_, MSG_DONTWAIT | MSG_NOSIGNAL);
      if (put < 0 && WouldBlock(errno)) return;
      if (put < 0) {
        broken_ = true;
      } else {
        sent_ += static_cast<size_t>(put);
      }
    }
  }

 private:
  const int from_;
  const int to_;
  std::vector<uint8_t> held_;
  size_t sent_ = 0;  // of what it holds
  bool ended_ = false;
  bool broken_ = false;
};

// A pair of gRPC's end and the network's end.
class LineRelay::Connection {
 public:
  Connection(Socket local, Socket remote, bool is_first)
      : first(is_first),
        local_(std::move(local)),
        remote_(std::move(remote)),
        up(local_.get(), remote_.get()),
        down(remote_.get(), local_.get()) {}

  // What the network has seen since the last call, beyond what `up` has handed on.
  struct Seen {
    uint64_t up = 0, down = 0;
  };
  Seen Look() {
    TcpFigures info{};
    socklen_t length = sizeof info;
    if (getsockopt(remote_.get(), IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return Seen();
    const uint64_t up_now = info.bytes_retrans + kPacketHeaderBytes * uint64_t{info.segs_out};
    const uint64_t down_now = info.bytes_received + kPacketHeaderBytes * uint64_t{info.segs_in};
    const Seen seen{up_now - std::min(up_now, seen_.up), down_now - std::min(down_now, seen_.down)};
    seen_ = {up_now, down_now};
    return seen;
  }

  void Hold(uint64_t up_bytes, uint64_t down_bytes) {
    const auto set = [this](int option, uint64_t bytes, uint64_t* now) {
      if (bytes == 0 || *now == bytes) return;
      *now = bytes;
      const int value = static_cast<int>(bytes);
      setsockopt(remote_.get(), SOL_SOCKET, option, &value, sizeof value);
    };
    set(SO_SNDBUF, up_bytes, &holds_up_);
    set(SO_RCVBUF, down_bytes, &holds_down_);
  }

  int local() const { return local_.get(); }
  int remote() const { return remote_.get(); }
  bool over() const { return up.over() || down.over(); }

  const bool first;

 private:
  const Socket local_, remote_;
  Seen seen_;
  uint64_t holds_up_ = 0, holds_down_ = 0;

 public:
  Way up, down;
};

// The messages of other threads to the loop.
struct LineRelay::Inbox {
  struct Door {
    Socket socket;  // listens for gRPC
    std::string address;
    bool first = false;
  };

  explicit Inbox(Socket event) : wake(std::move(event)) {}

  const Socket wake;

  std::mutex mutex;
  std::vector<std::unique_ptr<Connection>> made;
  std::vector<Door> doors;
  std::map<std::pair<std::string, bool>, std::string> targets;
  uint64_t up_cap = 0, down_cap = 0;
  uint64_t drawn = 0;  // for names
  bool stop = false;

  void Add(Socket local, Socket remote, bool first) {
    const int on = 1;
    setsockopt(remote.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    const std::lock_guard<std::mutex> lock(mutex);
    if (stop) return;
    made.push_back(std::make_unique<Connection>(std::move(local), std::move(remote), first));
    SetWakeEvent(wake);
  }
};

// The relay's thread and its own state.
class LineRelay::Loop {
 public:
  explicit Loop(std::shared_ptr<Inbox> inbox)
      : inbox_(std::move(inbox)), thread_([this] { Run(); }) {}
  ~Loop() { thread_.join(); }

 private:
  void Run();
  bool TakeInbox();  // false: it is to end
  void Accept(const Inbox::Door& door);
  void SizeBuffers();
  void ChargeSeen();
  void MoveAll(Way Connection::*way, CapBucket* bucket, bool first, size_t* turn);
  void Await();
  absl::Duration Watch();

  const std::shared_ptr<Inbox> inbox_;
  std::vector<Inbox::Door> doors_;
  std::vector<std::unique_ptr<Connection>> connections_;
  CapBucket up_, down_;
  size_t up_turn_ = 0, down_turn_ = 0;  // who begins
  std::vector<pollfd> watched_;
  std::thread thread_;  // last: it uses all above
};

namespace {

size_t LeastOf(const CapBucket& bucket) {
  return static_cast<size_t>(std::clamp<double>(
      static_cast<double>(bucket.rate()) * absl::ToDoubleSeconds(kLeast), 1.0, kMostAtOnce));
}

bool MayMove(CapBucket* bucket, bool first, absl::Time now) {
  return bucket->Allowed(now, first ? kFirstAhead : absl::ZeroDuration()) >= LeastOf(*bucket);
}

}  // namespace

bool LineRelay::Loop::TakeInbox() {
  ClearWakeEvent(inbox_->wake);
  const std::lock_guard<std::mutex> lock(inbox_->mutex);
  if (inbox_->stop) return false;
  const absl::Time now = absl::Now();
  if (up_.rate() != inbox_->up_cap) up_.SetRate(now, inbox_->up_cap);
  if (down_.rate() != inbox_->down_cap) down_.SetRate(now, inbox_->down_cap);
  for (auto& door : inbox_->doors) doors_.push_back(std::move(door));
  inbox_->doors.clear();
  for (auto& one : inbox_->made) connections_.push_back(std::move(one));
  inbox_->made.clear();
  return true;
}

// gRPC has dialled. Any other process that opens this process's abstract sockets is hung up on.
void LineRelay::Loop::Accept(const Inbox::Door& door) {
  while (true) {
    Socket local(accept4(door.socket.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (local.get() < 0) return;
    if (!IsOwnProcess(local.get())) continue;
    const auto taken = std::make_shared<Socket>(std::move(local));
    // A name's look-up blocks, and so does a connection. Nothing here waits for the thread. Where
    // the system refuses to make one, gRPC sees a connection that has ended, and dials again.
    try {
      std::thread([inbox = inbox_, address = door.address, first = door.first, taken] {
        absl::StatusOr<Socket> remote = ConnectTcp(address, absl::Now() + kPatience);
        if (remote.ok()) inbox->Add(std::move(*taken), *std::move(remote), first);
      }).detach();
    } catch (const std::system_error&) {
    }
  }
}

void LineRelay::Loop::SizeBuffers() {
  const uint64_t shares = (connections_.size() + 1) / 2;
  const auto share = [shares](uint64_t rate) {
    if (rate == 0) return uint64_t{0};
    return std::clamp(rate / kHeldPart / std::max<uint64_t>(shares, 1), kLeastHeld, kMostHeld);
  };
  for (const auto& one : connections_) one->Hold(share(up_.rate()), share(down_.rate()));
}

void LineRelay::Loop::ChargeSeen() {
  const absl::Time now = absl::Now();
  for (const auto& one : connections_) {
    const Connection::Seen seen = one->Look();
    up_.Charge(now, seen.up);
    down_.Charge(now, seen.down);
  }
}

// Deals out the allowed bytes in shares, each of a few packets at least. The connection after the
// last one that had a share begins the next time.
void LineRelay::Loop::MoveAll(Way Connection::*way, CapBucket* bucket, bool first, size_t* turn) {
  const size_t count = connections_.size();
  const absl::Duration ahead = first ? kFirstAhead : absl::ZeroDuration();
  const bool may = MayMove(bucket, first, absl::Now());
  const size_t begin = *turn;
  size_t shares = 0;
  for (const auto& one : connections_) shares += one->first == first ? 1 : 0;
  for (size_t i = 0; i < count; ++i) {
    const size_t at = (begin + i) % count;
    Connection& one = *connections_[at];
    if (one.first != first) continue;
    const absl::Time now = absl::Now();
    const size_t allowed = may ? bucket->Allowed(now, ahead) : 0;
    const size_t share = std::max(allowed / shares--, std::min(allowed, kFewPackets));
    const size_t moved = (one.*way).Move(share);
    if (moved == 0) continue;
    if (!first) *turn = at + 1;
    // What comes down was charged when the kernel took it in.
    if (bucket == &up_) bucket->Charge(now, moved);
  }
}

// Fills watched_ with the connections that can continue now; returns the time after which more can.
absl::Duration LineRelay::Loop::Watch() {
  watched_.clear();
  watched_.push_back({inbox_->wake.get(), POLLIN, 0});
  for (const Inbox::Door& door : doors_) watched_.push_back({door.socket.get(), POLLIN, 0});
  absl::Duration patience = absl::InfiniteDuration();
  const absl::Time now = absl::Now();
  const auto may_take = [&](const Way& way, CapBucket* bucket, bool first) {
    if (!way.wants_bytes()) return false;
    if (MayMove(bucket, first, now)) return true;
    absl::Duration wait = bucket->Wait(now, LeastOf(*bucket));
    if (first) wait -= kFirstAhead;
    patience = std::min(patience, std::max(wait, absl::Milliseconds(1)));
    return false;
  };
  const auto watch = [this](int fd, bool in, bool out) {
    const auto events = static_cast<short>((in ? POLLIN : 0) | (out ? POLLOUT : 0));
    // A closed end is told always, also where nothing can be done about it yet.
    watched_.push_back({events == 0 ? -1 : fd, events, 0});
  };
  for (const auto& one : connections_) {
    watch(one->local(), may_take(one->up, &up_, one->first), one->down.holds());
    watch(one->remote(), may_take(one->down, &down_, one->first), one->up.holds());
  }
  return patience;
}

void LineRelay::Loop::Await() {
  const absl::Duration patience = Watch();
  int milliseconds = -1;
  if (patience < absl::Seconds(1)) {
    milliseconds = static_cast<int>(absl::ToInt64Milliseconds(patience)) + 1;
  } else if (patience < absl::InfiniteDuration()) {
    milliseconds = 1000;
  }
  poll(watched_.data(), watched_.size(), milliseconds);
}

void LineRelay::Loop::Run() {
  while (TakeInbox()) {
    SizeBuffers();
    ChargeSeen();
    for (const bool first : {true, false}) {
      MoveAll(&Connection::up, &up_, first, &up_turn_);
      MoveAll(&Connection::down, &down_, first, &down_turn_);
    }
    connections_.erase(std::remove_if(connections_.begin(), connections_.end(),
                                      [](const auto& one) { return one->over(); }),
                       connections_.end());
    Await();
    for (size_t i = 0; i < doors_.size(); ++i) {
      if (watched_[i + 1].revents != 0) Accept(doors_[i]);
    }
  }
}

// -----------------------------------------------------------------------------------------------

LineRelay::LineRelay(std::shared_ptr<Inbox> inbox)
    : inbox_(std::move(inbox)), loop_(std::make_unique<Loop>(inbox_)) {}

absl::StatusOr<std::unique_ptr<LineRelay>> LineRelay::Start(uint64_t up_cap, uint64_t down_cap) {
  ASSIGN_OR_RETURN(Descriptor wake, MakeWakeEvent());
  auto inbox = std::make_shared<Inbox>(std::move(wake));
  inbox->up_cap = up_cap;
  inbox->down_cap = down_cap;
  return std::unique_ptr<LineRelay>(new LineRelay(std::move(inbox)));
}

LineRelay::~LineRelay() {
  {
    const std::lock_guard<std::mutex> lock(inbox_->mutex);
    inbox_->stop = true;
    SetWakeEvent(inbox_->wake);
  }
  loop_.reset();
}

void LineRelay::SetCaps(uint64_t up_cap, uint64_t down_cap) {
  const std::lock_guard<std::mutex> lock(inbox_->mutex);
  inbox_->up_cap = up_cap;
  inbox_->down_cap = down_cap;
  SetWakeEvent(inbox_->wake);
}

absl::StatusOr<std::string> LineRelay::Through(const std::string& address, bool first) {
  const std::lock_guard<std::mutex> lock(inbox_->mutex);
  const auto found = inbox_->targets.find({address, first});
  if (found != inbox_->targets.end()) return found->second;
  // An abstract name, which is not a file and ends with the process.
  const std::string name = absl::StrCat("atoll-line-", getpid(), "-",
                                        absl::ToUnixNanos(absl::Now()), "-", ++inbox_->drawn);
  socklen_t length = 0;
  const sockaddr_un at = AbstractAddress(name, &length);
  Socket door(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (door.get() < 0 || bind(door.get(), reinterpret_cast<const sockaddr*>(&at), length) != 0 ||
      listen(door.get(), SOMAXCONN) != 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the line's caps need a socket: ", std::strerror(errno)));
  }
  inbox_->doors.push_back({std::move(door), address, first});
  SetWakeEvent(inbox_->wake);
  return inbox_->targets[{address, first}] = absl::StrCat("unix-abstract:", name);
}

absl::StatusOr<Socket> LineRelay::Take(Socket accepted) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0) {
    return absl::ResourceExhaustedError("no descriptor is left");
  }
  Socket ours(pair[0]), theirs(pair[1]);
  NameEnd(ours.get(), accepted.get());
  inbox_->Add(std::move(ours), std::move(accepted), /*first=*/false);
  return theirs;
}

// -----------------------------------------------------------------------------------------------

void CapBucket::SetRate(absl::Time now, uint64_t rate) {
  Fill(now);
  rate_ = rate;
  // What the former rate had saved is no more than the new one may save.
  tokens_ =
      rate == 0 ? 0 : std::min(tokens_, static_cast<double>(rate) * absl::ToDoubleSeconds(kSaved));
}

void CapBucket::Fill(absl::Time now) {
  if (rate_ > 0 && now > filled_ && filled_ != absl::InfinitePast()) {
    const double rate = static_cast<double>(rate_);
    tokens_ = std::min(tokens_ + rate * absl::ToDoubleSeconds(now - filled_),
                       rate * absl::ToDoubleSeconds(kSaved));
  }
  filled_ = std::max(filled_, now);
}

size_t CapBucket::Allowed(absl::Time now, absl::Duration ahead) {
  if (rate_ == 0) return kUnlimited;
  Fill(now);
  const double allowed = tokens_ + static_cast<double>(rate_) * absl::ToDoubleSeconds(ahead);
  return allowed <= 0 ? 0 : static_cast<size_t>(allowed);
}

void CapBucket::Charge(absl::Time now, uint64_t bytes) {
  if (rate_ == 0) return;
  Fill(now);
  tokens_ -= static_cast<double>(bytes);
}

absl::Duration CapBucket::Wait(absl::Time now, size_t bytes) {
  if (rate_ == 0) return absl::ZeroDuration();
  Fill(now);
  const double missing = static_cast<double>(bytes) - tokens_;
  return missing <= 0 ? absl::ZeroDuration() : absl::Seconds(missing / static_cast<double>(rate_));
}

// -----------------------------------------------------------------------------------------------

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
