// Moves a run's store between sqlite and etcd (MigrateStore), and undoes such a move
// (UndoMigration). The coordinator's configs before and after the move describe the two stores.
//
// No coordinator may work with either store meanwhile: the folders of both configs are locked, and
// the leadership in etcd is held. The calls block.
#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "daemon/config/config.h"
#include "daemon/env/env.h"

namespace atolld {

struct MigrationOrder {
  std::string from_file, to_file;  // The files of the two configs, for messages.
  Config from, to;
  std::string move;  // The name of this move, which no other move has.
  absl::Time now;
  // Called with the step under way, the number of headers that are done and the number of all
  // headers; both are 0 in a step that does not count headers.
  std::function<void(absl::string_view doing, uint64_t done, uint64_t total)> on_progress;
};

struct Migration {
  std::string run_id, from, to;
  uint64_t version = 0, headers = 0, rows = 0, bytes = 0;
};

// Fails with INVALID_ARGUMENT if the configs do not belong together; with NOT_FOUND if there is no
// such run or folder; with ALREADY_EXISTS if the target holds a run; with FAILED_PRECONDITION if
// the run was already moved, or the two folders hold different keys; with UNAVAILABLE if a
// coordinator works with a store or etcd does not answer; with ABORTED if the connection to etcd
// was lost during the move. After UNAVAILABLE and ABORTED, and after this process was killed, the
// same call may be made again.
absl::StatusOr<Migration> MigrateStore(Files& files, const MigrationOrder& order);

struct UndoneMigration {
  std::string run_id, where, other;
  uint64_t version = 0;
  // True if the run had moved away from this store and was reopened; false if an incomplete copy
  // was removed.
  bool moved = false;
};

// Reopens a store whose run has moved away, or removes an incomplete copy. Fails with
// FAILED_PRECONDITION if there is nothing to undo, and otherwise like MigrateStore.
absl::StatusOr<UndoneMigration> UndoMigration(Files& files, const std::string& file,
                                              const Config& config);

}  // namespace atolld
