// atolld: the daemon. `atolld coordinator` leads a run, `atolld peer` takes part in one, `atolld
// join` enrols with a token first.
//
// Exit codes: 0 done (the run is sealed, or drained by SIGTERM), 1 failed, 2 the call or the config
// is wrong.
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compression/base/status_macros.h"
#include "compression/base/terminal.h"
#include "compression/base/words.h"
#include "daemon/atolld/join.h"
#include "daemon/cli/addresses.h"
#include "daemon/cli/command_line.h"
#include "daemon/cli/process.h"
#include "daemon/cli/process_folder.h"
#include "daemon/cli/token_argument.h"
#include "daemon/config/config.h"
#include "daemon/config/data_config.h"
#include "daemon/coordinator/aggregator_process.h"
#include "daemon/coordinator/coordinator.h"
#include "daemon/coordinator/history_check.h"
#include "daemon/coordinator/sqlite_store.h"
#include "daemon/env/posix_executor.h"
#include "daemon/env/posix_files.h"
#include "daemon/env/posix_folder_lock.h"
#include "daemon/env/process_events.h"
#include "daemon/env/process_log.h"
#include "daemon/env/worker_socket.h"
#include "daemon/identity/credentials.h"
#include "daemon/peer/peer.h"
#include "daemon/peer/peer_credentials.h"
#include "daemon/peer/worker_process.h"
#include "daemon/transport/grpc_transport.h"
#include "daemon/transport/tls.h"

namespace atolld {
namespace {

// Hashing, reducing and the outer step; the trainer beside the daemon needs the cores more.
constexpr int kPoolThreads = 2;

int Fail(const absl::Status& status) {
  PrintLine(stderr, absl::StrCat("atolld: ", status.message()));
  return ExitCodeOf(status);
}

// Makes this process the one of its folder, before it touches anything there. The pid is for
// people and scripts; what counts is the lock.
absl::StatusOr<FolderLock> TakeFolder(Files& files, const ProcessFolder& folder) {
  RETURN_IF_ERROR(EnsureProcessFolder(files, folder));
  ASSIGN_OR_RETURN(FolderLock lock, FolderLock::Take(folder.dir));
  const std::string text = absl::StrCat(getpid(), "\n");
  RETURN_IF_ERROR(WriteFileDurably(files, folder.dir + "/pid", BytesOf(text)));
  return lock;
}

// What every process of Atoll has. Members are destroyed in reverse: the transport before the loop,
// whose pool may still be at work on the files.
struct Machine {
  explicit Machine(std::unique_ptr<ProcessLog> process_log)
      : log(std::move(process_log)), executor(PosixExecutor::Options{kPoolThreads, 0}) {}

  // Before env(). `identity`: the folder of this process's credentials, which were checked.
  void Connect(const Config& config, const std::string& identity) {
    GrpcTransport::Options options;
    options.failure_timeout = config.membership.failure_timeout;
    options.lanes = static_cast<int>(config.network.lanes);
    if (!config.network.plaintext) options.tls = MakeTlsCredentials(identity);
    transport.emplace(executor, options);
  }

  Env env() { return Env{executor, files, *transport, *log}; }

  std::unique_ptr<ProcessLog> log;
  PosixFiles files;
  PosixExecutor executor;
  std::optional<GrpcTransport> transport;
};

absl::StatusOr<std::unique_ptr<Machine>> MakeMachine(const Config& config) {
  ProcessLog::Options options;
  ASSIGN_OR_RETURN(options.level, ParseLogLevel(config.log.level));
  ASSIGN_OR_RETURN(auto log, ProcessLog::Open(options));
  return std::make_unique<Machine>(std::move(log));
}

// What is valid, and hands out an address that may lead nowhere.
void WarnOfAddresses(Machine& machine, const Config& config, ConfigUse use) {
  for (const std::string& warning : AddressWarnings(config, use)) machine.log->Warning(warning);
}

// The peer's own, as its config names it.
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
      absl::StrCat(folder, ": the certificate is of ", Describe(info->identity),
                   ", and the config's [peer] is ", config.peer.role, " ", config.peer.id));
}

absl::Status RunPeer(const Config& config, const ProcessFolder& folder) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Machine> machine, MakeMachine(config));
  RETURN_IF_ERROR(CheckProcessFolder(machine->files, folder));
  const std::string identity = absl::StrCat(config.peer.dir, "/", kIdentityFolder);
  RETURN_IF_ERROR(CheckIdentity(*machine, config, identity));
  machine->Connect(config, identity);
  WarnOfAddresses(*machine, config, ConfigUse::kPeer);
  ASSIGN_OR_RETURN(const FolderLock lock, TakeFolder(machine->files, folder));
  WorkerProcess::Settings settings;
  settings.program = config.worker.program;
  settings.program_folder = ProgramFolder();
  settings.data_path = WorkerPlaces(config.data);
  settings.initial_path = config.model.initial;
  settings.base_path = config.model.base;
  settings.model_file = config.model.file;
  settings.state_path = config.peer.dir + "/worker-state";
  settings.threads = config.worker.threads;
  settings.device = config.worker.device;
  ASSIGN_OR_RETURN(const std::unique_ptr<WorkerSocket> socket, WorkerSocket::Make(config.peer.dir));
  settings.socket = socket->address();

  absl::Status result;
  WorkerProcess worker(machine->env(), settings);
  NoWorker none(machine->executor);
  const bool trains = config.peer.role != kAggregatorRoleName;
  Worker& trainer = trains ? static_cast<Worker&>(worker) : none;
  Peer peer(machine->env(), config, trainer, static_cast<uint32_t>(getpid()),
            [&](absl::Status status) {
              result = status;
              machine->executor.Stop();
            });
  EndSignals ends;
  SignalWatcher signals(machine->executor, SignalsThatEnd(), [&](int) {
    const EndSignals::Meaning meaning = ends.Take(machine->executor.Now());
    if (meaning == EndSignals::Meaning::kDrain) return peer.Drain();
    if (meaning == EndSignals::Meaning::kNothing) return;
    result = absl::CancelledError("stopped by a second signal");
    machine->executor.Stop();
  });
  CertificateRenewal renewal(machine->env(), config.coordinator.address, identity);
  if (!config.network.plaintext) peer.OnWelcomed([&renewal] { renewal.Check(); });
  RETURN_IF_ERROR(peer.Start());
  machine->executor.Run();
  // What became of the run is no fault of the call, whatever it is called inside.
  return result.ok() ? result : absl::UnavailableError(result.message());
}

// Certificates are good for months; a coordinator may live longer.
constexpr absl::Duration kBetweenRenewals = absl::Hours(12);

void RenewFromTimeToTime(Machine& machine, const Config& config, Authority& authority) {
  machine.executor.RunAfter(kBetweenRenewals, [&machine, &config, &authority] {
    const absl::Status renewed =
        RenewCluster(machine.files, config.coordinator.dir, authority, machine.executor.WallTime());
    if (!renewed.ok()) machine.log->Error(renewed.message());
    RenewFromTimeToTime(machine, config, authority);
  });
}

absl::Status RunCoordinator(const Config& config, const ProcessFolder& folder) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Machine> machine, MakeMachine(config));
  ASSIGN_OR_RETURN(const FolderLock lock, TakeFolder(machine->files, folder));
  std::unique_ptr<Authority> authority;
  if (!config.network.plaintext) {
    ASSIGN_OR_RETURN(authority,
                     OpenCluster(machine->files, config.coordinator.dir, config.run.id,
                                 machine->executor.WallTime(),
                                 [&executor = machine->executor] { return executor.Random(); }));
    RenewFromTimeToTime(*machine, config, *authority);
  }
  machine->Connect(config, absl::StrCat(config.coordinator.dir, "/", kIdentityFolder));
  WarnOfAddresses(*machine, config, ConfigUse::kCoordinator);
  ASSIGN_OR_RETURN(auto store, SqliteStore::Open(machine->files, config.coordinator.dir));
  Coordinator coordinator(
      machine->env(), config, std::move(store), authority.get(),
      [&](bool make) { return OpenHistoryKey(machine->files, config.coordinator.dir, make); });
  SignalWatcher signals(machine->executor, SignalsThatEnd(),
                        [&](int) { machine->executor.Stop(); });
  RETURN_IF_ERROR(coordinator.Start());
  AggregatorProcess aggregator(
      machine->env(), ProgramFolder() + "/atolld", config, authority.get(),
      [&](const std::string& why) { coordinator.SetAggregatorTrouble(why); });
  if (config.coordinator.aggregator == "always") aggregator.Start();
  if (config.coordinator.aggregator == "auto") {
    coordinator.OnUnreachable([&] { aggregator.Start(); });
  }
  if (config.coordinator.exit_when_sealed) {
    coordinator.OnSealed([&] { machine->executor.Stop(); });
  }
  machine->executor.Run();
  coordinator.Stop();
  return absl::OkStatus();
}

// Every header of the coordinator's store, which a start leaves out as far as a checkpoint covers
// them. Only reads.
absl::Status VerifyStore(const Config& config) {
  PosixFiles files;
  const std::string path = absl::StrCat(config.coordinator.dir, "/coordinator.db");
  if (!files.Exists(path)) return absl::NotFoundError(absl::StrCat(path, ": there is none"));
  ASSIGN_OR_RETURN(const auto store, SqliteStore::Open(files, config.coordinator.dir));
  const PosixExecutor executor({1, 0});
  const absl::Time began = executor.Now();
  ASSIGN_OR_RETURN(StoredRun run, store->Load());
  const absl::StatusOr<HistoryCheck> check = CheckHistory(*store, HistoryExtent::kWhole, &run);
  if (!check.ok()) return Annotate(check.status(), path);
  if (!check->unfit.empty()) return absl::DataLossError(absl::StrCat(path, ": ", check->unfit));
  uint64_t missing = 0;
  for (const HistoryGap& gap : run.gaps) missing += gap.last - gap.first + 1;
  const double seconds = absl::ToDoubleSeconds(executor.Now() - began);
  std::cout << path << ": " << Counted(check->headers, "header") << " up to version "
            << run.version() << ", chain ok" << (run.seal ? ", sealed" : "");
  if (missing > 0) std::cout << "; " << Counted(missing, "header") << " no peer had any more";
  std::cout << "; " << absl::StrFormat("%.0f", static_cast<double>(check->headers) / seconds)
            << " rounds/s" << std::endl;
  return absl::OkStatus();
}

// Before any thread starts, so that every thread inherits it and SignalWatcher alone takes these.
void BlockSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : SignalsThatEnd()) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);  // a log that nobody reads any more is no reason to die
}

// Each connection is a descriptor: as many as the system lets this process have.
void RaiseDescriptorLimit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

// `fresh`: a first start, by whoever called. `verify`: of a coordinator, its store alone is
// checked.
int RunAs(ConfigUse use, const std::string& file, bool fresh, bool verify = false) {
  const absl::StatusOr<Config> config = LoadConfig(file, use);
  if (!config.ok()) return Report(config.status());
  const bool leads = use == ConfigUse::kCoordinator;
  const ProcessFolder folder{leads ? config->coordinator.dir : config->peer.dir,
                             leads ? "[coordinator] dir" : "[peer] dir", file, fresh};
  const absl::Status status = verify  ? VerifyStore(*config)
                              : leads ? RunCoordinator(*config, folder)
                                      : RunPeer(*config, folder);
  return status.ok() ? kDone : Fail(status);
}

int JoinAndRun(JoinOptions options, const TokenArgument& token) {
  PosixFiles files;
  absl::StatusOr<std::string> text = ReadToken(files, token, stdin, stderr);
  if (!text.ok()) return Fail(text.status());
  options.token = *std::move(text);
  const PosixExecutor executor({1, 0});
  options.clock = [&executor] { return executor.WallTime(); };
  options.worker = ProgramFolder() + "/atoll-worker";
  options.say = [](const std::string& line) { PrintLine(stderr, line); };
  const absl::StatusOr<std::string> joined = Join(files, options);
  return joined.ok() ? RunAs(ConfigUse::kPeer, *joined, false) : Fail(joined.status());
}

int Main(int argc, char** argv) {
  OpenStandardStreams();
  BlockSignals();
  RaiseDescriptorLimit();
  CommandLine command_line("atolld", "Leads a run, or takes part in one");
  std::string file;
  bool fresh = false;
  bool verify = false;
  const Verb coordinator =
      command_line.AddVerb("coordinator", "Lead a run",
                           "atolld coordinator --config build/quickstart/coordinator/config.toml",
                           [&] { return RunAs(ConfigUse::kCoordinator, file, fresh, verify); });
  const Verb peer = command_line.AddVerb("peer", "Take part in a run",
                                         "atolld peer --config build/quickstart/peer-1/config.toml",
                                         [&] { return RunAs(ConfigUse::kPeer, file, fresh); });
  for (const Verb& verb : {coordinator, peer}) {
    verb.Add("--config", file, "The TOML file").File().Required();
    verb.Flag("--new", fresh, "A first start: make the config's dir, also where one was before");
  }
  coordinator.Flag("--verify", verify, "Check every header of its store, say so, and end");
  JoinOptions options;
  TokenArgument token;
  const Verb join = command_line.AddVerb("join", "Enrol with a token, then take part in its run",
                                         "atolld join --token-file <(atoll token create --dir "
                                         "build/quickstart) --dir ~/late --data docs",
                                         [&] { return JoinAndRun(options, token); });
  AddTokenArgument(join, token, "What `atoll token create` has printed; - is standard input");
  join.Add("--dir", options.dir, "Where all of it lives [./atoll-ID]").Folder();
  join.Add("--data", options.brought.data, "What to train on, a file or a folder").Path();
  join.Add("--tokenizer", options.brought.tokenizer,
           "Its tokenizer's file; without, the run's peers give it")
      .File();
  join.Add("--base", options.brought.base,
           "The model beneath the run's adapters, a file of `atoll import`")
      .File();
  join.Add("--program", options.brought.program,
           "The worker of an external model, or the TorchScript file; without, peers give that")
      .File();
  join.Add("--advertise", options.advertise,
           "HOST:PORT where others reach this machine; without, it dials out only");
  join.Add("--listen", options.listen,
           "Where it listens; without, all addresses at the port of --advertise");
  return command_line.Run(argc, argv);
}

}  // namespace
}  // namespace atolld

int main(int argc, char** argv) { return atolld::Main(argc, argv); }
