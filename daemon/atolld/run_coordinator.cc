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
#include "daemon/atolld/coordinator_process.h"
#include "daemon/atolld/daemon_process.h"
#include "daemon/config/store_config.h"
#include "daemon/coordinator/history_check.h"
#include "daemon/coordinator/sqlite_store.h"
#include "daemon/etcd/etcd_store.h"
#include "daemon/fitness/folder_fitness.h"
#include "daemon/identity/credentials.h"

namespace atolld {
namespace {

// Certificates are valid for months; a coordinator may live longer.
constexpr absl::Duration kBetweenRenewals = absl::Hours(12);

void RenewFromTimeToTime(Machine& machine, const Config& config, Authority& authority) {
  machine.executor.RunAfter(kBetweenRenewals, [&machine, &config, &authority] {
    const absl::Status renewed =
        RenewCluster(machine.files, config.coordinator.dir, authority, machine.executor.WallTime());
    if (!renewed.ok()) machine.log->Error(renewed.message());
    RenewFromTimeToTime(machine, config, authority);
  });
}

}  // namespace

absl::Status RunCoordinator(const Config& config, const ProcessFolder& folder) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Machine> machine,
                   MakeMachine(config, ConfigUse::kCoordinator));
  ASSIGN_OR_RETURN(const FolderLock lock, TakeFolder(machine->files, folder));
  if (!machine->files.Exists(absl::StrCat(folder.dir, "/", kAuthorityFolder))) {
    // Before the authority's key is written, on which the whole run will depend.
    RETURN_IF_ERROR(FolderIsFit(machine->files, folder.dir, FolderUse::kCoordinator));
  }
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
  CoordinatorProcess process(*machine, config, folder.dir, authority.get());
  return process.Run(folder.config);
}

namespace {

absl::Status Verify(Store& store, const std::string& path) {
  const PosixExecutor executor({1, 0});
  const absl::Time began = executor.Now();
  ASSIGN_OR_RETURN(StoredRun run, store.Load());
  const absl::StatusOr<HistoryCheck> check = CheckHistory(store, HistoryExtent::kWhole, &run);
  if (!check.ok()) return Annotate(check.status(), path);
  if (!check->unfit.empty()) return absl::DataLossError(absl::StrCat(path, ": ", check->unfit));
  uint64_t missing = 0;
  for (const HistoryGap& gap : run.gaps) missing += gap.last - gap.first + 1;
  const double seconds = absl::ToDoubleSeconds(executor.Now() - began);
  std::cout << path << ": " << Counted(check->headers, "header") << " up to version "
            << run.version() << ", chain ok" << (run.seal ? ", sealed" : "");
  if (missing > 0) std::cout << "; " << Counted(missing, "header") << " that no peer had any more";
  std::cout << "; " << absl::StrFormat("%.0f", static_cast<double>(check->headers) / seconds)
            << " rounds/s" << std::endl;
  return absl::OkStatus();
}

absl::Status VerifyFolder(const std::string& dir) {
  PosixFiles files;
  const std::string path = absl::StrCat(dir, "/coordinator.db");
  if (!files.Exists(path)) return absl::NotFoundError(absl::StrCat(path, ": there is none"));
  ASSIGN_OR_RETURN(const FolderLock lock, FolderLock::Take(dir));
  ASSIGN_OR_RETURN(const auto store, SqliteStore::Open(files, dir));
  return Verify(*store, path);
}

}  // namespace

absl::Status VerifyStore(const Config& config) {
  if (config.coordinator.store != kEtcdStoreName) return VerifyFolder(config.coordinator.dir);
  PosixFiles files;
  ASSIGN_OR_RETURN(EtcdPlace place, EtcdPlaceOf(files, config));
  EtcdStore store(std::move(place.access), std::move(place.prefix), nullptr);
  return Verify(store, store.where());
}

absl::Status BackUp(const Config& config, std::string to) {
  while (to.size() > 1 && to.back() == '/') to.pop_back();
  PosixFiles files;
  const bool in_etcd = config.coordinator.store == kEtcdStoreName;
  RETURN_IF_ERROR(BackUpCoordinator(files, config.coordinator.dir, to, !in_etcd));
  if (!in_etcd) return VerifyFolder(to);
  std::cout << to << ": the keys; the run's state is in etcd, which has backups of its own"
            << std::endl;
  return absl::OkStatus();
}

}  // namespace atolld
