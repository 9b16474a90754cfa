// A run's store moved between sqlite and etcd, by the configs of its coordinator before and after;
// and a move undone.
//
// No coordinator may work with either store meanwhile: the folders of both configs are locked, and
// the leadership in etcd is held. Blocking.
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
  std::string from_file, to_file;  // of the two configs, for messages
  Config from, to;
  std::string move;  // a name that no other move has
  absl::Time now;
  // What is being done, and how many headers of how many; 0 of 0 where it is not counted.
  std::function<void(absl::string_view doing, uint64_t done, uint64_t total)> on_progress;
};

struct Migration {
  std::string run_id, from, to;
  uint64_t version = 0, headers = 0, rows = 0, bytes = 0;
};

// INVALID_ARGUMENT: the configs do not go together. NOT_FOUND: there is no such run or folder.
// ALREADY_EXISTS: the target holds a run. FAILED_PRECONDITION: the run has moved before, or the two
// folders hold different keys. UNAVAILABLE: a coordinator is at work, or etcd does not answer.
// ABORTED: etcd was lost in the middle. After the last two, and after a kill, the same call may be
// made again.
absl::StatusOr<Migration> MigrateStore(Files& files, const MigrationOrder& order);

struct UndoneMigration {
  std::string run_id, where, other;
  uint64_t version = 0;
  bool moved = false;  // away from there; else its copy was not whole, and is removed
};

// Opens a store again whose run has moved away, or removes a copy that is not whole.
// FAILED_PRECONDITION: there is nothing to undo. Else as above.
absl::StatusOr<UndoneMigration> UndoMigration(Files& files, const std::string& file,
                                              const Config& config);

}  // namespace atolld
