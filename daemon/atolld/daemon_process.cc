#include "daemon/atolld/daemon_process.h"

#include <signal.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "compression/base/last_words.h"
#include "compression/base/names.h"
#include "compression/base/status_macros.h"
#include "daemon/program/addresses.h"
#include "daemon/program/command_line.h"
#include "daemon/program/process.h"
#include "daemon/transport/tls.h"

namespace atolld {
namespace {

// Hashing, reducing and the outer step; the trainer beside the daemon needs the cores more.
constexpr int kPoolThreads = 2;

absl::StatusOr<std::unique_ptr<ProcessLog>> OpenLog(const Config& config, ConfigUse use) {
  ProcessLog::Options options;
  ASSIGN_OR_RETURN(options.level, ParseLogLevel(config.log.level));
  options.json = config.log.format == "json";
  ASSIGN_OR_RETURN(auto log, ProcessLog::Open(options));
  const bool leads = use == ConfigUse::kCoordinator;
  log->SetContext(ContextOf(config, use, leads ? config.run.id : ""));
  return log;
}

}  // namespace

int Fail(const absl::Status& status) {
  // The process ends even if its standard error is not read.
  LastWords(absl::StrCat("atolld: ", Printable(status.message()), "\n"));
  return ExitCodeOf(status);
}

int FailInLog(const Config& config, ConfigUse use, const absl::Status& status) {
  if (config.log.format != "json") return Fail(status);
  const absl::StatusOr<std::unique_ptr<ProcessLog>> log = OpenLog(config, use);
  if (!log.ok()) return Fail(status);
  (*log)->Error(status.message());
  return ExitCodeOf(status);
}

absl::StatusOr<FolderLock> TakeFolder(Files& files, const ProcessFolder& folder) {
  RETURN_IF_ERROR(EnsureProcessFolder(files, folder));
  ASSIGN_OR_RETURN(FolderLock lock, FolderLock::Take(folder.dir));
  const std::string text = absl::StrCat(getpid(), "\n");
  RETURN_IF_ERROR(WriteFileDurably(files, folder.dir + "/pid", BytesOf(text)));
  return lock;
}

Machine::Machine(std::unique_ptr<ProcessLog> process_log)
    : log(std::move(process_log)),
      executor(PosixExecutor::Options{kPoolThreads, 0}),
      watch(executor, *log, files.sync_times()) {}

void Machine::Connect(const Config& config, const std::string& identity) {
  GrpcTransport::Options options;
  options.failure_timeout = config.membership.failure_timeout;
  options.lanes = static_cast<int>(config.network.lanes);
  if (!config.network.plaintext) options.tls = MakeTlsCredentials(identity);
  transport.emplace(executor, options);
}

absl::StatusOr<std::unique_ptr<Machine>> MakeMachine(const Config& config, ConfigUse use) {
  ASSIGN_OR_RETURN(auto log, OpenLog(config, use));
  return std::make_unique<Machine>(std::move(log));
}

ProcessLog::Context ContextOf(const Config& config, ConfigUse use, const std::string& run) {
  if (use == ConfigUse::kCoordinator) return {"coordinator", run, ""};
  return {"peer", run, config.peer.id};
}

void WarnOfAddresses(Machine& machine, const Config& config, ConfigUse use) {
  for (const std::string& warning : AddressWarnings(config, use)) machine.log->Warning(warning);
}

std::unique_ptr<ConfigReload> MakeReload(Machine& machine, const std::string& file, ConfigUse use,
                                         const Config& running) {
  auto reload = std::make_unique<ConfigReload>(machine.executor, *machine.log, file, use, running);
  reload->On("[log] level", [&log = *machine.log](const Config& config) -> absl::Status {
    ASSIGN_OR_RETURN(const Log::Level level, ParseLogLevel(config.log.level));
    log.SetLevel(level);
    return absl::OkStatus();
  });
  return reload;
}

std::unique_ptr<SignalWatcher> WatchSignals(Machine& machine, ConfigReload& reload, Task end) {
  const bool hang_up_ends = HasTerminal();
  return std::make_unique<SignalWatcher>(machine.executor, SignalsThatEnd(),
                                         [&reload, hang_up_ends, end = std::move(end)](int signal) {
                                           if (signal == SIGHUP && !hang_up_ends)
                                             return reload.Reload();
                                           end();
                                         });
}

std::string ServiceStatus(const std::string& doing) {
  return absl::StrCat("atolld ", ATOLL_VERSION, ": ", doing);
}

}  // namespace atolld
