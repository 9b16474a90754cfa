// The start of every process of `atolld`: it opens the process's folder and log, makes its loop,
// files and network, and connects it to signals and the service manager.
//
// Used once at the start of a process, on its first thread.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/config/config.h"
#include "daemon/config/config_reload.h"
#include "daemon/env/env.h"
#include "daemon/env/machine_watch.h"
#include "daemon/env/posix_executor.h"
#include "daemon/env/posix_files.h"
#include "daemon/env/posix_folder_lock.h"
#include "daemon/env/process_log.h"
#include "daemon/env/signal_events.h"
#include "daemon/program/process_folder.h"
#include "daemon/transport/grpc_transport.h"

namespace atolld {

// Prints the error that ends a process on standard error, and returns the exit code.
int Fail(const absl::Status& status);

// Does the same in the format of the process's log, so that a program that reads the log as JSON
// gets no plain text.
int FailInLog(const Config& config, ConfigUse use, const absl::Status& status);

// Creates the folder if it is missing, takes its lock, so that no other process uses the folder,
// and writes the pid file, which is only for people and scripts. Call it before anything else in
// the folder is read or written. Fails with FAILED_PRECONDITION if another process has the lock.
absl::StatusOr<FolderLock> TakeFolder(Files& files, const ProcessFolder& folder);

// The loop, files, network and log of a process. Members are destroyed in reverse order: the
// transport before the loop, and the loop before the files, which the loop's pool may still use.
struct Machine {
  explicit Machine(std::unique_ptr<ProcessLog> process_log);

  // Makes the transport. Call it before env(). `identity` is the folder of this process's
  // credentials, which the caller has checked.
  void Connect(const Config& config, const std::string& identity);
  Env env() { return Env{executor, files, *transport, *log}; }

  std::unique_ptr<ProcessLog> log;
  PosixFiles files;
  PosixExecutor executor;
  MachineWatch watch;
  std::optional<GrpcTransport> transport;
};

absl::StatusOr<std::unique_ptr<Machine>> MakeMachine(const Config& config, ConfigUse use);

// Returns the fields that every line of the log has. `run` is the id of the run, or empty if it is
// not known yet.
ProcessLog::Context ContextOf(const Config& config, ConfigUse use, const std::string& run);

// Warns about addresses in the config that are valid and are given to other processes, but that may
// not be reachable.
void WarnOfAddresses(Machine& machine, const Config& config, ConfigUse use);

// Makes the object that reads the config again and applies the settings that can change without a
// restart. Changes of other settings are only logged. Other parts of the process add their settings
// to it.
std::unique_ptr<ConfigReload> MakeReload(Machine& machine, const std::string& file, ConfigUse use,
                                         const Config& running);

// Calls `end` for each signal that asks the process to end. SIGHUP reloads the config, unless the
// process has a terminal: it then means that the terminal is gone, and ends the process.
std::unique_ptr<SignalWatcher> WatchSignals(Machine& machine, ConfigReload& reload, Task end);

// Returns the status that a service manager shows, for example "atolld 0.2.0: run books, version
// 12, training".
std::string ServiceStatus(const std::string& doing);

}  // namespace atolld
