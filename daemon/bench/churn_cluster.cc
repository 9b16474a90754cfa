#include "daemon/bench/churn_cluster.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compression/base/check.h"
#include "compression/base/status_macros.h"
#include "daemon/program/process.h"

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
  return absl::UnknownError(absl::StrCat("proxy: ", what, ": ", std::strerror(errno)));
}

// Small messages pass immediately, as they would without a proxy.
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

absl::StatusOr<std::unique_ptr<Proxy>> Proxy::Open(int target_port, Origin origin) {
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
  return std::unique_ptr<Proxy>(
      new Proxy(listener, wake, ntohs(address.sin_port), target_port, std::move(origin)));
}

Proxy::Proxy(int listener, int wake, int port, int target_port, Origin origin)
    : listener_(listener),
      wake_(wake),
      port_(port),
      target_port_(target_port),
      origin_(std::move(origin)),
      thread_([this] { Run(); }) {}

Proxy::~Proxy() {
  Change([this] { stop_ = true; });
  thread_.join();
  for (Connection& connection : connections_) Abort(&connection);
  close(listener_);
  close(wake_);
}

std::string Proxy::address() const { return absl::StrCat("127.0.0.1:", port_); }

void Proxy::Hold() {
  Change([this] { hold_all_ = true; });
}

void Proxy::HoldFrom(const std::string& origin) {
  Change([this, &origin] { held_origins_.insert(origin); });
}

void Proxy::Resume() {
  Change([this] {
    hold_all_ = false;
    held_origins_.clear();
  });
}

bool Proxy::holding() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return hold_all_ || !held_origins_.empty();
}

// The thread only forwards with the mutex held and checks the holds first: when this returns, no
// byte passes any more.
void Proxy::Change(const std::function<void()>& change) {
  const std::lock_guard<std::mutex> lock(mutex_);
  change();
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_, &one, sizeof one);
}

bool Proxy::Held(const Connection& connection) const {
  return hold_all_ || (!connection.origin.empty() && held_origins_.count(connection.origin) > 0);
}

void Proxy::Run() {
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

void Proxy::Accept() {
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

void Proxy::Serve(Connection* one, short client_events, short server_events) {
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

// Moves what can be moved now. Returns false if an end was reset.
bool Proxy::Pump(Flow* flow, int from, int to) {
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

void Proxy::Abort(Connection* connection) {
  const bool orderly = connection->up.sink_ended && connection->down.sink_ended;
  for (const int fd : {connection->client, connection->server}) {
    if (orderly) {
      close(fd);
    } else {
      Reset(fd);
    }
  }
}

// -----------------------------------------------------------------------------------------------

namespace {

// Below the range that Linux gives to outgoing connections (from 32768 on): another connection must
// not take a port that a killed daemon leaves for a while.
constexpr int kFirstPort = 12000;
constexpr int kPorts = 20000;

// Returns `count` ports on which nothing listens, in a range that depends on this process, so that
// two benchmarks do not collide.
absl::StatusOr<std::vector<int>> FreePorts(size_t count) {
  std::vector<int> ports;
  const int start = static_cast<int>(getpid() % kPorts);
  for (int i = 0; i < kPorts && ports.size() < count; ++i) {
    const int candidate = kFirstPort + (start + i) % kPorts;
    if (FreeLoopbackPort(candidate).ok()) ports.push_back(candidate);
  }
  if (ports.size() < count) return absl::ResourceExhaustedError("no free ports on 127.0.0.1");
  return ports;
}

bool IsStopped(pid_t pid) {
  const std::optional<ProcessStat> stat = StatOf(pid);
  return stat.has_value() && stat->state == 'T';
}

bool IsGone(pid_t pid) {
  const std::optional<ProcessStat> stat = StatOf(pid);
  return !stat.has_value() || stat->state == 'Z' || stat->state == 'X';
}

}  // namespace

absl::StatusOr<std::unique_ptr<ChurnCluster>> ChurnCluster::Make(
    Files& files, const Config& config, const std::string& dir, const std::string& atolld_program) {
  std::unique_ptr<ChurnCluster> cluster(new ChurnCluster);
  RETURN_IF_ERROR(cluster->Prepare(files, config, dir, atolld_program));
  return cluster;
}

absl::Status ChurnCluster::Prepare(Files& files, const Config& config, const std::string& dir,
                                   const std::string& atolld_program) {
  const size_t peer_count = config.run.peers;
  ASSIGN_OR_RETURN(const std::vector<int> ports, FreePorts(peer_count + 1));
  links_.resize(peer_count + 1);
  for (size_t i = 1; i <= peer_count; ++i) {
    Links& links = links_[i];
    links.port = ports[i];
    ASSIGN_OR_RETURN(links.to_coordinator, Proxy::Open(ports[0]));
    ASSIGN_OR_RETURN(links.to_peer, Proxy::Open(links.port, [this](int source, int proxy) {
                       return OriginOf(source, proxy);
                     }));
  }
  size_t next = 0;
  const AdjustConfig adjust = [&](const LocalProcess& process, Config* own) {
    const Links& links = links_[next++];  // in the order of the processes
    if (process.role != "peer") return;
    own->coordinator.address = links.to_coordinator->address();
    own->peer.listen = absl::StrCat("127.0.0.1:", links.port);
    own->peer.advertise = links.to_peer->address();
  };
  ASSIGN_OR_RETURN(layout_, MakeLocalLayout(files, config, dir, ports[0], atolld_program, adjust));
  processes_ = std::make_unique<LocalProcesses>(layout_);
  workers_.resize(layout_.processes.size());
  const std::lock_guard<std::mutex> lock(pids_mutex_);
  pids_.resize(layout_.processes.size());
  return absl::OkStatus();
}

ChurnCluster::~ChurnCluster() {
  if (processes_ == nullptr) return;
  Stop(absl::ZeroDuration());
}

absl::Status ChurnCluster::Start(size_t process) {
  RETURN_IF_ERROR(processes_->Start(process));
  const std::lock_guard<std::mutex> lock(pids_mutex_);
  pids_[process] = pid(process);
  return absl::OkStatus();
}

absl::Status ChurnCluster::StartCoordinator() { return Start(0); }

absl::Status ChurnCluster::StartPeers() {
  for (size_t i = 1; i <= peers(); ++i) RETURN_IF_ERROR(Start(i));
  return absl::OkStatus();
}

std::string ChurnCluster::OriginOf(int source_port, int proxy_port) {
  std::vector<pid_t> pids;
  {
    const std::lock_guard<std::mutex> lock(pids_mutex_);
    pids = pids_;
  }
  const pid_t owner = OwnerOfConnection(pids, source_port, proxy_port);
  for (size_t i = 0; i < pids.size(); ++i) {
    if (owner != 0 && pids[i] == owner) return layout_.processes[i].id;
  }
  return "";
}

pid_t ChurnCluster::WorkerOf(size_t process) {
  const pid_t daemon = pid(process);
  const std::optional<ProcessStat> known = StatOf(workers_[process]);
  if (known.has_value() && known->parent == daemon && known->state != 'Z') {
    return workers_[process];
  }
  workers_[process] = 0;
  for (const pid_t child : ChildrenOf(daemon)) {
    if (!IsGone(child)) workers_[process] = child;
  }
  return workers_[process];
}

bool ChurnCluster::Reachable(size_t process) const {
  return !links_[process].to_coordinator->holding();
}

bool ChurnCluster::Live(size_t process) {
  if (!processes_->running(process) || !Reachable(process)) return false;
  const std::optional<ProcessStat> daemon = StatOf(pid(process));
  if (!daemon.has_value() || !daemon->running()) return false;
  const std::optional<ProcessStat> worker = StatOf(WorkerOf(process));
  return worker.has_value() && worker->running();
}

size_t ChurnCluster::CountLive() {
  size_t live = 0;
  for (size_t i = 1; i <= peers(); ++i) live += Live(i) ? 1 : 0;
  return live;
}

void ChurnCluster::CutOff(size_t process) {
  links_[process].to_coordinator->Hold();
  links_[process].to_peer->Hold();
  for (size_t i = 1; i <= peers(); ++i) {
    if (i != process) links_[i].to_peer->HoldFrom(id(process));
  }
}

bool ChurnCluster::Strike(const PlannedFault& fault) {
  CHECK(!struck_.has_value());
  struck_pid_ = OfWorker(fault.kind) ? WorkerOf(fault.peer) : pid(fault.peer);
  if (struck_pid_ <= 0 || !processes_->running(fault.peer)) return false;
  struck_ = fault;
  switch (fault.kind) {
    case FaultKind::kKillPeer:
    case FaultKind::kKillWorker:
    case FaultKind::kKillCoordinator:
      kill(struck_pid_, SIGKILL);
      break;
    case FaultKind::kFreezePeer:
    case FaultKind::kFreezeWorker:
    case FaultKind::kFreezeCoordinator:
      kill(struck_pid_, SIGSTOP);
      break;
    case FaultKind::kRestartPeer:
      processes_->Terminate(fault.peer);
      break;
    case FaultKind::kBlackHolePeer:
      CutOff(fault.peer);
      break;
  }
  return true;
}

bool ChurnCluster::HasTakenEffect() {
  CHECK(struck_.has_value());
  switch (struck_->kind) {
    case FaultKind::kKillPeer:
    case FaultKind::kRestartPeer:
    case FaultKind::kKillCoordinator:
      return !processes_->running(struck_->peer);  // it has been waited for
    case FaultKind::kKillWorker:
      return IsGone(struck_pid_);
    case FaultKind::kFreezePeer:
    case FaultKind::kFreezeWorker:
    case FaultKind::kFreezeCoordinator:
      return IsStopped(struck_pid_);
    case FaultKind::kBlackHolePeer:
      return !Reachable(struck_->peer) && !IsGone(struck_pid_);
  }
  return false;
}

absl::Status ChurnCluster::Undo() {
  CHECK(struck_.has_value());
  const PlannedFault fault = *std::exchange(struck_, std::nullopt);
  switch (fault.kind) {
    case FaultKind::kKillPeer:
    case FaultKind::kRestartPeer:
    case FaultKind::kKillCoordinator:
      return processes_->running(fault.peer) ? absl::OkStatus() : Start(fault.peer);
    case FaultKind::kKillWorker:
      return absl::OkStatus();
    case FaultKind::kFreezePeer:
    case FaultKind::kFreezeWorker:
    case FaultKind::kFreezeCoordinator:
      kill(struck_pid_, SIGCONT);
      return absl::OkStatus();
    case FaultKind::kBlackHolePeer:
      for (size_t i = 1; i <= peers(); ++i) {
        links_[i].to_coordinator->Resume();
        links_[i].to_peer->Resume();
      }
      return absl::OkStatus();
  }
  return absl::OkStatus();
}

std::vector<std::string> ChurnCluster::Poll(bool all_may_end) {
  std::vector<std::string> told;
  for (const LocalProcesses::Change& change : processes_->Poll()) {
    if (change.started || all_may_end) continue;
    const bool ours =
        struck_.has_value() && struck_->peer == change.index &&
        (struck_->kind == FaultKind::kKillPeer || struck_->kind == FaultKind::kRestartPeer ||
         struck_->kind == FaultKind::kKillCoordinator);
    if (ours) continue;
    told.push_back(absl::StrCat(id(change.index), " (pid ", change.pid, ") ",
                                change.exit ? change.exit->Predicate() : "has ended"));
    const absl::Status started = Start(change.index);
    if (!started.ok()) told.push_back(std::string(started.message()));
  }
  return told;
}

void ChurnCluster::Stop(absl::Duration patience) {
  // What is frozen cannot end, and what is cut off cannot say goodbye.
  if (struck_.has_value()) {
    const bool ended = !processes_->running(struck_->peer);
    if (ended) {
      struck_.reset();
    } else {
      Undo().IgnoreError();
    }
  }
  std::vector<size_t> indices;
  for (size_t i = 1; i <= peers(); ++i) indices.push_back(i);
  processes_->Stop(indices, patience);
  processes_->Stop({0}, patience);
}

}  // namespace atolld
