#include "daemon/atolld/run_peer.h"

#include <unistd.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "compression/base/status_macros.h"
#include "daemon/atolld/daemon_process.h"
#include "daemon/atolld/http_port.h"
#include "daemon/atolld/peer_machine.h"
#include "daemon/config/data_config.h"
#include "daemon/env/process_figures.h"
#include "daemon/env/service_notices.h"
#include "daemon/env/worker_socket.h"
#include "daemon/identity/credentials.h"
#include "daemon/peer/daily_bytes.h"
#include "daemon/peer/peer.h"
#include "daemon/peer/peer_credentials.h"
#include "daemon/peer/run_counts.h"
#include "daemon/peer/worker_process.h"
#include "daemon/program/process.h"
#include "daemon/web/metrics_page.h"

namespace atolld {
namespace {

DaemonFigures FiguresOf(const Config& config, const Peer& peer, const WorkerProcess& worker) {
  DaemonFigures figures;
  figures.run = peer.run_id();
  figures.peer = config.peer.id;
  figures.region = config.peer.region;
  figures.role = config.peer.role == kAggregatorRoleName ? kAggregatorRoleName : "peer";
  figures.connected = peer.connected();
  figures.progress = peer.progress();
  figures.tokens = peer.tokens();
  figures.worker_restarts = worker.restarts();
  return figures;
}

// Adds what a peer reports about its machine.
void AddFigures(const ProcessFigures& figures, const std::optional<SlowSync>& slow,
                v1::PeerProgress* progress) {
  progress->set_resident_bytes(figures.resident_bytes);
  progress->set_disk_free_bytes(figures.disk_free_bytes);
  progress->set_memory_available_bytes(figures.memory_available_bytes);
  progress->set_slow_sync_seconds(slow ? absl::ToDoubleSeconds(slow->took) : 0);
}

// Checks the peer's own identity, as its config names it.
absl::Status CheckIdentity(Machine& machine, const Config& config, const std::string& folder) {
  if (config.network.plaintext) return absl::OkStatus();
  const absl::Time now = machine.executor.WallTime();
  const absl::StatusOr<CertificateInfo> info = LoadCredentials(machine.files, folder, now);
  if (absl::IsNotFound(info.status())) {
    return absl::FailedPreconditionError(
        absl::StrCat("this peer has no identity: ", info.status().message(),
                     "; `atolld join --token-file FILE` gets one, or `atoll identity issue` on the "
                     "coordinator's machine"));
  }
  RETURN_IF_ERROR(info.status());
  const Role role = config.peer.role == kAggregatorRoleName ? Role::kAggregator : Role::kPeer;
  if (info->identity.id == config.peer.id && info->identity.role == role) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(folder, ": the certificate is for ", Describe(info->identity),
                   ", and the config's [peer] is ", config.peer.role, " ", config.peer.id));
}

WorkerProcess::Settings WorkerSettings(const Config& config, const std::string& socket) {
  WorkerProcess::Settings settings;
  settings.program = config.worker.program;
  settings.program_folder = ProgramFolder();
  settings.data_path = WorkerPlaces(config.data);
  settings.validation_path = config.data.validation;
  settings.parties = config.parties.hosted;
  settings.first_party = config.parties.hosted > 0 ? config.parties.first : 0;
  settings.initial_path = config.model.initial;
  settings.base_path = config.model.base;
  settings.model_file = config.model.path.empty() ? config.model.file : config.model.path;
  settings.state_path = config.peer.dir + "/worker-state";
  settings.threads = config.worker.threads;
  settings.device = config.worker.device;
  settings.sharding = config.worker.sharding;
  settings.slower = config.worker.slower;
  settings.memory = config.worker.memory;
  settings.lora_rank = config.worker.lora_rank;
  settings.peers = config.run.peers;
  settings.socket = socket;
  settings.value_folder = ValueFolderOf(config.peer);
  return settings;
}

// The parts of the process, connected. Members are destroyed in reverse. All that they refer to
// must outlive the object.
class PeerProcess {
 public:
  PeerProcess(Machine& machine, const Config& config, const std::string& identity,
              std::unique_ptr<WorkerSocket> socket);

  // Runs the loop until the peer has nothing left to do, or a second signal. Errors as RunPeer.
  absl::Status Run(const std::string& config_file);

 private:
  PeerMachine::Parts MachineParts();
  absl::Status SetCaps(uint64_t up_cap, uint64_t down_cap);
  void OnEndSignal();
  void OnWelcomed();
  void NameRun();
  void Stop(absl::Status why);

  Machine& machine_;
  const Config& config_;
  const uint32_t pid_ = static_cast<uint32_t>(getpid());
  const std::unique_ptr<WorkerSocket> socket_;
  absl::Status result_;
  ServiceNotices notices_;
  EndSignals ends_;
  DailyBytes daily_bytes_;
  RunCounts counts_;
  WorkerProcess worker_;
  NoWorker none_;
  Worker& trainer_;
  Peer peer_;
  PeerMachine owned_;
  CertificateRenewal renewal_;
  const ProcessSampler sampler_;
  const DaemonBoard board_;
};

PeerProcess::PeerProcess(Machine& machine, const Config& config, const std::string& identity,
                         std::unique_ptr<WorkerSocket> socket)
    : machine_(machine),
      config_(config),
      socket_(std::move(socket)),
      notices_(ServiceNotices::FromEnvironment()),
      daily_bytes_(machine.env(), config.peer.dir + "/bytes-today", absl::LocalTimeZone(),
                   [&transport = *machine.transport] {
                     const LineBytes bytes = transport.line_bytes();
                     return BytesToday{bytes.sent, bytes.received};
                   }),
      counts_(machine.env(), config.peer.dir + "/run-counts"),
      worker_(machine.env(), WorkerSettings(config, socket_->address())),
      none_(machine.executor),
      trainer_(config.peer.role == kAggregatorRoleName ? static_cast<Worker&>(none_) : worker_),
      peer_(machine.env(), config, trainer_, pid_, [this](absl::Status status) { Stop(status); }),
      owned_(machine.env(), config, pid_, peer_, MachineParts()),
      renewal_(
          machine.env(), [this] { return peer_.coordinator(); }, identity),
      sampler_(machine.env(), config.peer.dir),
      board_(machine.executor, [this] { return FiguresOf(config_, peer_, worker_); }) {
  peer_.OnWelcomed([this] { OnWelcomed(); });
  peer_.OnProgress([this](v1::PeerProgress* progress) {
    AddFigures(sampler_.newest(), machine_.files.sync_times().Longest(machine_.executor.Now()),
               progress);
    counts_.Complete(peer_.run_id(), progress);
  });
}

PeerMachine::Parts PeerProcess::MachineParts() {
  PeerMachine::Parts parts;
  parts.bytes_today = [this] { return daily_bytes_.Today(); };
  parts.on_caps = [this](uint64_t up_cap, uint64_t down_cap) {
    const absl::Status capped = SetCaps(up_cap, down_cap);
    if (!capped.ok()) machine_.log->Error(absl::StrCat("the line's caps: ", capped.message()));
  };
  return parts;
}

absl::Status PeerProcess::SetCaps(uint64_t up_cap, uint64_t down_cap) {
  RETURN_IF_ERROR(machine_.transport->SetCaps(up_cap, down_cap));
  peer_.SetCaps(up_cap, down_cap);
  return absl::OkStatus();
}

void PeerProcess::OnEndSignal() {
  const EndSignals::Meaning meaning = ends_.Take(machine_.executor.Now());
  if (meaning == EndSignals::Meaning::kNothing) return;
  if (meaning != EndSignals::Meaning::kDrain) {
    return Stop(absl::CancelledError("stopped by a second signal"));
  }
  notices_.Stopping();
  peer_.Drain();
}

void PeerProcess::OnWelcomed() {
  NameRun();
  if (!config_.network.plaintext) renewal_.Check();
}

void PeerProcess::NameRun() {
  machine_.log->SetContext(ContextOf(config_, ConfigUse::kPeer, peer_.run_id()));
}

void PeerProcess::Stop(absl::Status why) {
  result_ = std::move(why);
  machine_.executor.Stop();
}

absl::Status PeerProcess::Run(const std::string& config_file) {
  const auto reload = MakeReload(machine_, config_file, ConfigUse::kPeer, config_);
  reload->On("[machine]",
             [this](const Config& config) { return owned_.Configure(config.machine); });
  const auto signals = WatchSignals(machine_, *reload, [this] { OnEndSignal(); });
  daily_bytes_.Start();
  counts_.Start();
  RETURN_IF_ERROR(owned_.Load());
  const MachineConfig& limits = owned_.limits();
  RETURN_IF_ERROR(SetCaps(limits.up_cap, limits.down_cap));
  trainer_.SetThreads(ThreadsOf(limits.processors, config_.worker.threads));
  ASSIGN_OR_RETURN(const std::unique_ptr<HttpServer> http,
                   OpenHttpPort(machine_.env(), config_, ConfigUse::kPeer, config_.peer.dir));
  if (http != nullptr) {
    ReloadHttpPort(*reload, machine_.files, *http);
    ServeDaemonMetrics(*http, board_, sampler_);
  }
  RETURN_IF_ERROR(peer_.Start());
  notices_.Ready(machine_.executor, [this] { return ServiceStatus(peer_.Doing()); });
  NameRun();
  RETURN_IF_ERROR(owned_.Start());
  machine_.executor.Run();
  const absl::Status kept = daily_bytes_.Save();
  if (!kept.ok()) machine_.log->Warning(kept.message());
  peer_.progress();  // tells counts_ what was done last
  const absl::Status counted = counts_.Save();
  if (!counted.ok()) machine_.log->Warning(counted.message());
  notices_.Stopping();
  // What became of the run is no fault of the call, whatever it is called inside.
  return result_.ok() ? result_ : absl::UnavailableError(result_.message());
}

}  // namespace

absl::Status RunPeer(const Config& config, const ProcessFolder& folder) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Machine> machine, MakeMachine(config, ConfigUse::kPeer));
  RETURN_IF_ERROR(CheckProcessFolder(machine->files, folder));
  const std::string identity = absl::StrCat(config.peer.dir, "/", kIdentityFolder);
  RETURN_IF_ERROR(CheckIdentity(*machine, config, identity));
  machine->Connect(config, identity);
  WarnOfAddresses(*machine, config, ConfigUse::kPeer);
  ASSIGN_OR_RETURN(const FolderLock lock, TakeFolder(machine->files, folder));
  ASSIGN_OR_RETURN(std::unique_ptr<WorkerSocket> socket, WorkerSocket::Make(config.peer.dir));
  PeerProcess process(*machine, config, identity, std::move(socket));
  return process.Run(folder.config);
}

}  // namespace atolld
