// `atoll store migrate`.
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "compression/base/status_macros.h"
#include "compression/base/words.h"
#include "daemon/cli/live_view.h"
#include "daemon/cli/output.h"
#include "daemon/cli/verbs/verbs.h"
#include "daemon/config/config.h"
#include "daemon/env/posix_files.h"
#include "daemon/etcd/store_migration.h"
#include "daemon/program/format.h"
#include "daemon/program/process.h"

namespace atolld {
namespace {

struct MigrateOptions {
  std::string config;
  std::string to;
  bool undo = false;
  bool json = false;
};

std::string DrawnName() {
  std::random_device device;
  return absl::StrFormat("%08x%08x", device(), device());
}

absl::StatusOr<Migration> MigrateByConfigs(const MigrateOptions& options) {
  MigrationOrder order;
  order.from_file = options.config;
  order.to_file = options.to;
  ASSIGN_OR_RETURN(order.from, LoadConfig(options.config, ConfigUse::kCoordinator));
  ASSIGN_OR_RETURN(order.to, LoadConfig(options.to, ConfigUse::kCoordinator));
  order.move = DrawnName();
  order.now = absl::Now();
  ProgressLine progress;
  order.on_progress = [&progress](absl::string_view doing, uint64_t done, uint64_t total) {
    progress.Show(
        total == 0 ? std::string(doing)
                   : absl::StrCat(doing, ": ", WithThousands(done), " of ", WithThousands(total)));
  };
  PosixFiles files;
  return MigrateStore(files, order);
}

VerbExit MigrateRun(const MigrateOptions& options) {
  const double began = MonotonicSeconds();
  ASSIGN_OR_RETURN(const Migration moved, MigrateByConfigs(options));
  return PrintAnswer(
      options.json,
      {{"run", moved.run_id},
       {"from", moved.from},
       {"to", moved.to},
       {"version", moved.version},
       {"headers", moved.headers},
       {"rows", moved.rows},
       {"bytes", moved.bytes},
       {"seconds", MonotonicSeconds() - began}},
      {absl::StrCat("run ", moved.run_id, " has moved from ", moved.from, " to ", moved.to, ": ",
                    Counted(moved.headers, "header"), " up to version ", moved.version,
                    ", chain ok; ", Counted(moved.rows, "row"), ", ", WithThousands(moved.bytes),
                    " bytes, all read again"),
       absl::StrCat("start its coordinator with ", options.to, "; with ", options.config,
                    " it starts no more")});
}

VerbExit UndoMigrationOf(const MigrateOptions& options) {
  ASSIGN_OR_RETURN(const Config config, LoadConfig(options.config, ConfigUse::kCoordinator));
  PosixFiles files;
  ASSIGN_OR_RETURN(const UndoneMigration undone, UndoMigration(files, options.config, config));
  return PrintAnswer(
      options.json,
      {{"run", undone.run_id},
       {"store", undone.where},
       {"other", undone.other},
       {"undone", undone.moved ? "moved" : "arriving"},
       {"version", undone.version}},
      {undone.moved
           ? absl::StrCat(undone.where, ": open again, with run ", undone.run_id,
                          " as it was at version ", undone.version,
                          "; what came later it learns from the peers. Never start a coordinator "
                          "on ",
                          undone.other, " again")
           : absl::StrCat(undone.where, ": the copy of run ", undone.run_id,
                          " that was not whole is removed; if ", undone.other,
                          " is marked as moved by now, undo that too")});
}

VerbExit MigrateOrUndo(const MigrateOptions& options) {
  if (options.to.empty() == !options.undo) {
    return absl::InvalidArgumentError(
        "atoll store migrate: give --to, the config that names the new store, or --undo");
  }
  return options.undo ? UndoMigrationOf(options) : MigrateRun(options);
}

}  // namespace

void AddStoreVerbs(CommandLine& command_line) {
  const auto options = std::make_shared<MigrateOptions>();
  const Verb verb = command_line.AddVerb(
      "store migrate",
      "Move a run between sqlite and etcd\n"
      "While none of its coordinators is at work; the peers may stay. Every row is read again and "
      "every header checked. The old store is marked, so that no coordinator starts on it. Cut "
      "short at any moment, the same call again ends the move.",
      "atoll store migrate --config alone.toml --to shared.toml",
      [options] { return MigrateOrUndo(*options); });
  verb.Add("--config", options->config, "The coordinator's config as it is: where the run lies")
      .File()
      .Required();
  const Option to =
      verb.Add("--to", options->to, "Its config with the other [coordinator] store").File();
  verb.Flag(
          "--undo", options->undo,
          "Take the mark from the store of --config: if the run has moved to one that is lost; or "
          "with the rest of a move that was cut short")
      .Excludes(to);
  verb.Flag("--json", options->json, "Print as JSON");
}

}  // namespace atolld
