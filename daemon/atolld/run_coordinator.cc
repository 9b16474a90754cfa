#include "daemon/atolld/run_coordinator.h"

#include <cstdint>
#include <iostream>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "compression/base/status_macros.h"
#include "compression/base/words.h"
#include "daemon/atolld/backup.h"
#include "daemon/atolld/daemon_process.h"
#include "daemon/atolld/http_port.h"
#include "daemon/cli/process.h"
#include "daemon/coordinator/aggregator_process.h"
#include "daemon/coordinator/coordinator.h"
#include "daemon/coordinator/history_check.h"
#include "daemon/coordinator/sqlite_store.h"
#include "daemon/env/process_figures.h"
#include "daemon/env/service_notices.h"
#include "daemon/identity/credentials.h"
#include "daemon/web/dashboard.h"
#include "daemon/web/metrics_page.h"
#include "daemon/web/run_board.h"

namespace atolld {
namespace {

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

// Twice as often as a person notices, and cheap for a thousand peers.
constexpr absl::Duration kBetweenStatuses = absl::Milliseconds(500);

}  // namespace

absl::Status RunCoordinator(const Config& config, const ProcessFolder& folder) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Machine> machine,
                   MakeMachine(config, ConfigUse::kCoordinator));
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
  ServiceNotices notices = ServiceNotices::FromEnvironment();
  const auto reload = MakeReload(*machine, folder.config, ConfigUse::kCoordinator, config);
  const auto signals = WatchSignals(*machine, *reload, [&] { machine->executor.Stop(); });
  // Before whoever waits for the coordinator can reach it and look for the address.
  RunBoard board(machine->executor.Random(),
                 [&executor = machine->executor] { return executor.Now(); });
  const ProcessSampler sampler(machine->env(), config.coordinator.dir);
  ASSIGN_OR_RETURN(const std::unique_ptr<HttpServer> http,
                   OpenHttpPort(machine->env(), config, ConfigUse::kCoordinator, folder.dir));
  if (http != nullptr) {
    ReloadHttpPort(*reload, machine->files, *http);
    ServeDashboard(*http, board);
    ServeRunMetrics(
        *http, [&board] { return board.Newest(); }, sampler);
  }
  RETURN_IF_ERROR(coordinator.Start());
  notices.Ready(machine->executor, [&coordinator] { return ServiceStatus(coordinator.Doing()); });
  machine->log->SetContext(ContextOf(config, ConfigUse::kCoordinator, coordinator.run_id()));
  if (http != nullptr) {
    coordinator.OnStatus(kBetweenStatuses,
                         [&board](const v1::RunStatus& news) { board.Take(news); });
  }
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
  notices.Stopping();
  coordinator.Stop();
  return absl::OkStatus();
}

absl::Status VerifyStore(const std::string& dir) {
  PosixFiles files;
  const std::string path = absl::StrCat(dir, "/coordinator.db");
  if (!files.Exists(path)) return absl::NotFoundError(absl::StrCat(path, ": there is none"));
  ASSIGN_OR_RETURN(const FolderLock lock, FolderLock::Take(dir));
  ASSIGN_OR_RETURN(const auto store, SqliteStore::Open(files, dir));
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

absl::Status BackUp(const Config& config, std::string to) {
  while (to.size() > 1 && to.back() == '/') to.pop_back();
  PosixFiles files;
  RETURN_IF_ERROR(BackUpCoordinator(files, config.coordinator.dir, to));
  return VerifyStore(to);
}

}  // namespace atolld
