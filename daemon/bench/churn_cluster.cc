#include "daemon/bench/churn_cluster.h"

#include <signal.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "compression/base/check.h"
#include "compression/base/status_macros.h"
#include "daemon/cli/process_stat.h"

namespace atolld {
namespace {

// Below what Linux gives to outgoing connections (from 32768 on): a port that a killed daemon
// leaves for a while must not be taken by somebody's connection.
constexpr int kFirstPort = 12000;
constexpr int kPorts = 20000;

// `count` ports on which nobody listens, at a place of this process's own so that two benchmarks
// do not meet.
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
    ASSIGN_OR_RETURN(links.to_coordinator, Relay::Open(ports[0]));
    ASSIGN_OR_RETURN(links.to_peer, Relay::Open(links.port, [this](int source, int relay) {
                       return OriginOf(source, relay);
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

std::string ChurnCluster::OriginOf(int source_port, int relay_port) {
  std::vector<pid_t> pids;
  {
    const std::lock_guard<std::mutex> lock(pids_mutex_);
    pids = pids_;
  }
  const pid_t owner = OwnerOfConnection(pids, source_port, relay_port);
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
                                change.exit ? Describe(*change.exit) : "has ended"));
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
