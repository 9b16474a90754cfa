// What every process of `atolld` begins with: its folder, its log, its machine (loop, files,
// network), the signals and the service manager that it listens to.
//
// Used once, at the start of a process, by its first thread.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/cli/process_folder.h"
#include "daemon/config/config.h"
#include "daemon/config/config_reload.h"
#include "daemon/env/env.h"
#include "daemon/env/posix_executor.h"
#include "daemon/env/posix_files.h"
#include "daemon/env/posix_folder_lock.h"
#include "daemon/env/process_events.h"
#include "daemon/env/process_log.h"
#include "daemon/transport/grpc_transport.h"

namespace atolld {

// Says on standard error why a process ends, and gives its exit code.
int Fail(const absl::Status& status);

// The same, as the process's other lines are: whoever collects objects gets no text.
int FailInLog(const Config& config, ConfigUse use, const absl::Status& status);

// Makes this process the one of its folder, before it touches anything there. The pid is for
// people and scripts; what counts is the lock. FAILED_PRECONDITION: another one has it.
absl::StatusOr<FolderLock> TakeFolder(Files& files, const ProcessFolder& folder);

// Members are destroyed in reverse: the transport before the loop, whose pool may still be at work
// on the files.
struct Machine {
  explicit Machine(std::unique_ptr<ProcessLog> process_log);

  // Before env(). `identity`: the folder of this process's credentials, which were checked.
  void Connect(const Config& config, const std::string& identity);
  Env env() { return Env{executor, files, *transport, *log}; }

  std::unique_ptr<ProcessLog> log;
  PosixFiles files;
  PosixExecutor executor;
  std::optional<GrpcTransport> transport;
};

absl::StatusOr<std::unique_ptr<Machine>> MakeMachine(const Config& config, ConfigUse use);

// What stands in every line of a log. `run`: empty where it is not known yet.
ProcessLog::Context ContextOf(const Config& config, ConfigUse use, const std::string& run);

// What is valid, and hands out an address that may lead nowhere.
void WarnOfAddresses(Machine& machine, const Config& config, ConfigUse use);

// What a running process can take from its config without a restart: the rest is only named. Other
// parts of the process add theirs.
std::unique_ptr<ConfigReload> MakeReload(Machine& machine, const std::string& file, ConfigUse use,
                                         const Config& running);

// Calls `end` for each signal that asks a process to end, and reloads the config at SIGHUP, which
// ends it only where it says that the terminal is gone.
std::unique_ptr<SignalWatcher> WatchSignals(Machine& machine, ConfigReload& reload, Task end);

// "atolld 0.2.0: run books, version 12, training", as a service manager shows it.
std::string ServiceStatus(const std::string& doing);

}  // namespace atolld
