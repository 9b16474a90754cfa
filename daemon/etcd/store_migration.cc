#include "daemon/etcd/store_migration.h"

#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "daemon/config/store_config.h"
#include "daemon/coordinator/run_move.h"
#include "daemon/coordinator/sqlite_store.h"
#include "daemon/env/posix_folder_lock.h"
#include "daemon/etcd/etcd_place.h"
#include "daemon/etcd/etcd_store.h"
#include "daemon/identity/credentials.h"

namespace atolld {
namespace {

bool IsInEtcd(const Config& config) { return config.coordinator.store == kEtcdStoreName; }

const std::string& FolderOf(const Config& config) { return config.coordinator.dir; }

bool IsSameFolder(const Config& one, const Config& other) {
  std::error_code error;
  return std::filesystem::equivalent(FolderOf(one), FolderOf(other), error) && !error;
}

absl::Status CheckConfigs(const MigrationOrder& order) {
  if (order.from.coordinator.store == order.to.coordinator.store) {
    return absl::InvalidArgumentError(absl::StrCat(
        order.from_file, " and ", order.to_file, " both have [coordinator] store = '",
        order.from.coordinator.store, "': a run is moved between 'sqlite' and 'etcd'"));
  }
  const std::string& from = order.from.run.id;
  const std::string& to = order.to.run.id;
  if (!from.empty() && !to.empty() && from != to) {
    return absl::InvalidArgumentError(absl::StrCat("[run] id is ", from, " in ", order.from_file,
                                                   ", and ", to, " in ", order.to_file,
                                                   ": a run keeps its name"));
  }
  return absl::OkStatus();
}

absl::Status CheckFolder(Files& files, const std::string& file, const Config& config) {
  if (files.Exists(FolderOf(config))) return absl::OkStatus();
  return absl::NotFoundError(
      absl::StrCat(file, ": [coordinator] dir ", FolderOf(config),
                   " does not exist: the coordinator's keys "
                   "must be there; `atolld coordinator --backup` copies them"));
}

// Returns the certificate of the cluster's authority; empty in plain text.
absl::StatusOr<std::string> AuthorityOf(Files& files, const Config& config) {
  if (config.network.plaintext) return std::string();
  const std::string folder = absl::StrCat(FolderOf(config), "/", kAuthorityFolder);
  return ReadFile(files, CertificateFile(folder), kLargestPemFile);
}

// The run's peers trust one authority, and its history is signed with one key.
absl::Status CheckSameKeys(Files& files, const MigrationOrder& order) {
  if (IsSameFolder(order.from, order.to)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::string from, AuthorityOf(files, order.from));
  ASSIGN_OR_RETURN(const std::string to, AuthorityOf(files, order.to));
  ASSIGN_OR_RETURN(const SigningKey from_key, OpenHistoryKey(files, FolderOf(order.from), false));
  ASSIGN_OR_RETURN(const SigningKey to_key, OpenHistoryKey(files, FolderOf(order.to), false));
  if (from == to && from_key.public_key() == to_key.public_key()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      FolderOf(order.to), ", [coordinator] dir of ", order.to_file, ", has other keys than ",
      FolderOf(order.from), ": `atolld coordinator --config ", order.from_file,
      " --backup FOLDER` copies the run's own"));
}

// A store with which nothing else works while this exists; the caller holds the folder's lock.
struct HeldStore {
  std::optional<EtcdHold> hold;
  std::unique_ptr<TableStore> store;
};

absl::StatusOr<HeldStore> OpenStore(Files& files, const Config& config) {
  HeldStore held;
  if (!IsInEtcd(config)) {
    ASSIGN_OR_RETURN(held.store, SqliteStore::Open(files, FolderOf(config)));
    return held;
  }
  ASSIGN_OR_RETURN(const EtcdPlace place, EtcdPlaceOf(files, config));
  ASSIGN_OR_RETURN(const std::string authority, AuthorityOf(files, config));
  ASSIGN_OR_RETURN(EtcdHold hold, EtcdHold::Take(place, config, authority));
  held.store = std::make_unique<EtcdStore>(place.access, place.prefix, hold.term());
  held.hold.emplace(std::move(hold));
  return held;
}

// Makes no folder if there is none.
absl::Status CheckIsThere(Files& files, const Config& config) {
  const std::string path = SqliteStore::PathIn(FolderOf(config));
  if (IsInEtcd(config) || files.Exists(path)) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat(path, ": there is none"));
}

}  // namespace

absl::StatusOr<Migration> MigrateStore(Files& files, const MigrationOrder& order) {
  RETURN_IF_ERROR(CheckConfigs(order));
  RETURN_IF_ERROR(CheckFolder(files, order.from_file, order.from));
  RETURN_IF_ERROR(CheckFolder(files, order.to_file, order.to));
  RETURN_IF_ERROR(CheckIsThere(files, order.from));
  ASSIGN_OR_RETURN(const FolderLock lock, FolderLock::Take(FolderOf(order.from)));
  std::optional<FolderLock> other;
  if (!IsSameFolder(order.from, order.to)) {
    ASSIGN_OR_RETURN(FolderLock taken, FolderLock::Take(FolderOf(order.to)));
    other.emplace(std::move(taken));
  }
  RETURN_IF_ERROR(CheckSameKeys(files, order));
  ASSIGN_OR_RETURN(const HeldStore from, OpenStore(files, order.from));
  ASSIGN_OR_RETURN(const HeldStore to, OpenStore(files, order.to));
  MoveOrder move;
  move.run_id = order.from.run.id.empty() ? order.to.run.id : order.from.run.id;
  move.move = order.move;
  move.now = order.now;
  move.on_progress = order.on_progress;
  const absl::StatusOr<MoveReport> report = MoveRun(*from.store, *to.store, move);
  if (absl::IsAborted(report.status())) {  // as a coordinator would be told that it leads no longer
    return absl::AbortedError(
        absl::StrCat("the hold on the run in etcd was lost: ", report.status().message(),
                     "; make the same call again"));
  }
  RETURN_IF_ERROR(report.status());
  return Migration{report->run_id,  from.store->where(), to.store->where(), report->version,
                   report->headers, report->rows,        report->bytes};
}

absl::StatusOr<UndoneMigration> UndoMigration(Files& files, const std::string& file,
                                              const Config& config) {
  RETURN_IF_ERROR(CheckFolder(files, file, config));
  RETURN_IF_ERROR(CheckIsThere(files, config));
  ASSIGN_OR_RETURN(const FolderLock lock, FolderLock::Take(FolderOf(config)));
  ASSIGN_OR_RETURN(const HeldStore held, OpenStore(files, config));
  ASSIGN_OR_RETURN(const v1::StoreMark mark, UndoMove(*held.store));
  return UndoneMigration{mark.run_id(), held.store->where(), mark.other(), mark.version(),
                         mark.kind() == v1::StoreMark::MOVED};
}

}  // namespace atolld
