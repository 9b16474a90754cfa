// atolld: the daemon. `atolld coordinator` leads a run, `atolld peer` takes part in one, and
// `atolld join` first enrols with a token.
//
// Exit codes: 0 done (the run is sealed, or drained by SIGTERM), 1 failed, 2 the call or the config
// is wrong.
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "compression/base/build_info.h"
#include "compression/base/last_words.h"
#include "compression/base/names.h"
#include "compression/base/terminal.h"
#include "daemon/atolld/daemon_process.h"
#include "daemon/atolld/join.h"
#include "daemon/atolld/run_coordinator.h"
#include "daemon/atolld/run_peer.h"
#include "daemon/config/config.h"
#include "daemon/env/child_mark.h"
#include "daemon/env/line_writer.h"
#include "daemon/env/posix_executor.h"
#include "daemon/env/posix_files.h"
#include "daemon/env/signal_events.h"
#include "daemon/program/command_line.h"
#include "daemon/program/process.h"
#include "daemon/program/token_argument.h"
#include "daemon/transport/sockets.h"

namespace atolld {
namespace {

// SIGHUP only ends a process whose terminal is gone; any other process reads its config again.
std::vector<int> GuardedSignals() {
  std::vector<int> signals = SignalsThatEnd();
  if (!HasTerminal()) {
    signals.erase(std::remove(signals.begin(), signals.end(), SIGHUP), signals.end());
  }
  return signals;
}

// Call it before any thread starts, so that every thread inherits it and only SignalWatcher takes
// these signals.
void BlockSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : SignalsThatEnd()) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);  // a log that nobody reads any more is no reason to die
}

// The processes that a worker has started must not outlive it, even if this process is killed.
void WatchOverWorkers() {
  const absl::Status watched = WatchOverMarked();
  if (!watched.ok()) LastWords(absl::StrCat("atolld: ", watched.message(), "\n"));
}

// Each connection is a descriptor, so this takes as many as the system allows.
void RaiseDescriptorLimit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

int RunAs(ConfigUse use, const std::string& file, bool fresh) {
  const absl::StatusOr<Config> config = LoadConfig(file, use);
  if (!config.ok()) return Report(config.status());
  const bool leads = use == ConfigUse::kCoordinator;
  const ProcessFolder folder{leads ? config->coordinator.dir : config->peer.dir,
                             leads ? "[coordinator] dir" : "[peer] dir", file, fresh};
  const absl::Status status = leads ? RunCoordinator(*config, folder) : RunPeer(*config, folder);
  return status.ok() ? kDone : FailInLog(*config, use, status);
}

int RunPeerVerb(const std::string& file, bool fresh) {
  WatchOverWorkers();
  const SignalGuard guard(GuardedSignals());
  return RunAs(ConfigUse::kPeer, file, fresh);
}

struct CoordinatorOptions {
  std::string file;
  bool fresh = false;   // a first start, by whoever called
  bool verify = false;  // its store alone is checked
  std::string backup;   // where its folder is copied to, if not empty
};

int RunCoordinatorVerb(const CoordinatorOptions& options) {
  const SignalGuard guard(GuardedSignals());
  if (!options.verify && options.backup.empty()) {
    return RunAs(ConfigUse::kCoordinator, options.file, options.fresh);
  }
  const absl::StatusOr<Config> config = LoadConfig(options.file, ConfigUse::kCoordinator);
  if (!config.ok()) return Report(config.status());
  const absl::Status status =
      options.backup.empty() ? VerifyStore(*config) : BackUp(*config, options.backup);
  return status.ok() ? kDone : Fail(status);
}

// With `enrol_only`, the service manager starts the peer later, with the config that exists by
// then.
int JoinAndRun(JoinOptions options, const TokenArgument& token, bool enrol_only) {
  if (!enrol_only) WatchOverWorkers();
  const SignalGuard guard(GuardedSignals());
  PosixFiles files;
  absl::StatusOr<std::string> text = ReadToken(files, token, stdin, stderr);
  if (!text.ok()) return Fail(text.status());
  options.token = *std::move(text);
  const PosixExecutor executor({1, 0});
  options.clock = [&executor] { return executor.WallTime(); };
  options.worker = ProgramFolder() + "/atoll-worker";
  absl::StatusOr<std::string> joined = absl::UnknownError("");
  {
    LineWriter error(STDERR_FILENO, false, [](uint64_t) { return std::string(); });
    options.say = [&error](const std::string& line) {
      error.Write(absl::StrCat(Printable(line), "\n"));
    };
    joined = Join(files, options);
  }
  if (!joined.ok()) return Fail(joined.status());
  if (!enrol_only) return RunAs(ConfigUse::kPeer, *joined, false);
  PrintLine(stdout, *joined);
  return kDone;
}

int Main(int argc, char** argv) {
  OpenStandardStreams();
  TellUncaughtExceptions();
  BlockSignals();
  RaiseDescriptorLimit();
  PrepareTransport();
  CommandLine command_line("atolld", "Leads a run, or takes part in one");
  command_line.DescribeBuild(BuildInfo("atolld"));
  CoordinatorOptions lead;
  std::string file;
  bool fresh = false;
  const Verb coordinator =
      command_line.AddVerb("coordinator", "Lead a run",
                           "atolld coordinator --config build/quickstart/coordinator/config.toml",
                           [&] { return RunCoordinatorVerb(lead); });
  const Verb peer = command_line.AddVerb("peer", "Take part in a run",
                                         "atolld peer --config build/quickstart/peer-1/config.toml",
                                         [&] { return RunPeerVerb(file, fresh); });
  const auto add_start = [](const Verb& verb, std::string& config, bool& first) {
    verb.Add("--config", config, "The TOML file").File().Required();
    verb.Flag("--new", first, "A first start: make the config's dir, even if there was one before");
  };
  add_start(coordinator, lead.file, lead.fresh);
  add_start(peer, file, fresh);
  coordinator.Flag("--verify", lead.verify, "Check every header of its store, say so, and end");
  coordinator
      .Add("--backup", lead.backup,
           "Copy its keys and its store to this new folder, also while it runs, and end")
      .Folder();
  JoinOptions options;
  TokenArgument token;
  bool enrol_only = false;
  const Verb join = command_line.AddVerb("join", "Enrol with a token, then take part in its run",
                                         "atolld join --token-file <(atoll token create --dir "
                                         "build/quickstart) --dir ~/late --data docs",
                                         [&] { return JoinAndRun(options, token, enrol_only); });
  AddTokenArgument(join, token, "What `atoll token create` has printed; - is standard input");
  join.Add("--dir", options.dir, "Where all of it lives [./atoll-ID]").Folder();
  join.Add("--data", options.brought.data, "What to train on, a file or a folder").Path();
  join.Add("--tokenizer", options.brought.tokenizer,
           "Its tokenizer's file; without it, the run's peers give it")
      .File();
  join.Add("--base", options.brought.base,
           "The model beneath the run's adapters, a file of `atoll import`; for kind 'huggingface' "
           "the model's folder")
      .Path();
  join.Add("--program", options.brought.program,
           "The worker of an external model, or the TorchScript file; without it, peers give the "
           "file")
      .File();
  join.Add("--advertise", options.advertise,
           "HOST:PORT where others reach this machine; without it, it dials out only");
  join.Add("--listen", options.listen,
           "Where it listens [all addresses at the port of --advertise]");
  join.Flag("--enrol-only", enrol_only,
            "Print the config's path and end: a service manager starts `atolld peer`");
  return command_line.Run(argc, argv);
}

}  // namespace
}  // namespace atolld

int main(int argc, char** argv) { return atolld::Main(argc, argv); }
