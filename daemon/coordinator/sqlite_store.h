// SqliteStore: the Store of production, one SQLite database in WAL mode with synchronous=FULL.
//
// One coordinator at a time works with it: whoever opens it holds the folder's lock
// (posix_folder_lock.h). Others may read and copy it meanwhile, which never holds up a commit.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "daemon/coordinator/store.h"
#include "daemon/env/env.h"

struct sqlite3;

namespace atolld {

class SqliteStore final : public Store {
 public:
  struct Options {
    uint32_t most_pages = 0;  // of the database, 4 KiB each; 0: as many as the disk holds
  };

  // Opens or makes `directory`/coordinator.db. Errors name the file. UNAVAILABLE: another process
  // has it open. FAILED_PRECONDITION: a newer release wrote it. DATA_LOSS: it is no such database.
  // RESOURCE_EXHAUSTED: no space.
  static absl::StatusOr<std::unique_ptr<Store>> Open(Files& files, const std::string& directory);
  static absl::StatusOr<std::unique_ptr<Store>> Open(Files& files, const std::string& directory,
                                                     const Options& options);

  // Makes `to`/coordinator.db, which is not there yet, a copy of `from`/coordinator.db as it is at
  // one instant, also while a coordinator commits to it. Durable when it returns; a copy that
  // failed may leave a part of the file. NOT_FOUND: nothing to copy. ALREADY_EXISTS: `to` has one.
  // UNAVAILABLE: its coordinator is on a file system that lets nobody else read. Blocks.
  static absl::Status Copy(Files& files, const std::string& from, const std::string& to);

  ~SqliteStore() override;
  SqliteStore(const SqliteStore&) = delete;
  SqliteStore& operator=(const SqliteStore&) = delete;

  absl::StatusOr<StoredRun> Load() override;
  absl::Status Apply(const RunUpdate& update) override;
  absl::StatusOr<std::vector<v1::EntryHeader>> ReadHeaders(uint64_t first, uint32_t limit) override;
  std::string where() const override { return path_; }

 private:
  SqliteStore(std::string path, sqlite3* database);

  absl::Status Prepare(const Options& options);  // pragmas and schema
  absl::Status KeepWriteAheadLog();
  absl::Status Execute(const char* sql);
  absl::Status Write(const RunUpdate& update);
  absl::Status LoadRun(StoredRun* run);
  absl::Status LoadTable(absl::string_view table, StoredRun* run);
  absl::Status Error(int code) const;

  const std::string path_;
  sqlite3* const database_;
};

}  // namespace atolld
