// SqliteStore: the Store of production, one SQLite database in WAL mode with synchronous=FULL.
//
// One coordinator at a time works with it: whoever opens it holds the folder's lock
// (posix_folder_lock.h). Others may read and copy it meanwhile, which never holds up a commit.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "daemon/coordinator/table_store.h"
#include "daemon/env/env.h"

struct sqlite3;

namespace atolld {

class SqliteStore final : public TableStore {
 public:
  struct Options {
    uint32_t most_pages = 0;  // of the database, 4 KiB each; 0: as many as the disk holds
  };

  // Opens or makes `directory`/coordinator.db. Errors name the file. UNAVAILABLE: another process
  // has it open. FAILED_PRECONDITION: a newer release wrote it. DATA_LOSS: it is no such database.
  // RESOURCE_EXHAUSTED: no space.
  static absl::StatusOr<std::unique_ptr<TableStore>> Open(Files& files,
                                                          const std::string& directory);
  static absl::StatusOr<std::unique_ptr<TableStore>> Open(Files& files,
                                                          const std::string& directory,
                                                          const Options& options);

  // Makes `to`/coordinator.db, which is not there yet, a copy of `from`/coordinator.db as it is at
  // one instant, also while a coordinator commits to it. Durable when it returns; a copy that
  // failed may leave a part of the file. NOT_FOUND: nothing to copy. ALREADY_EXISTS: `to` has one.
  // UNAVAILABLE: its coordinator is on a file system that lets nobody else read. Blocks.
  static absl::Status Copy(Files& files, const std::string& from, const std::string& to);

  ~SqliteStore() override;
  SqliteStore(const SqliteStore&) = delete;
  SqliteStore& operator=(const SqliteStore&) = delete;

  // Whether its run is there: FAILED_PRECONDITION as Load, the rest as Copy. Only reads. Blocks.
  static absl::Status CheckUnmarked(Files& files, const std::string& directory);

  // The name of the database in a directory.
  static std::string PathIn(const std::string& directory);

  absl::Status Apply(const RunUpdate& update) override;
  // All, in one transaction.
  absl::StatusOr<size_t> ApplyFirst(absl::Span<const RunUpdate* const> updates) override;
  absl::StatusOr<std::vector<v1::EntryHeader>> ReadHeaders(uint64_t first, uint32_t limit) override;
  std::string where() const override { return path_; }
  absl::Status ReadTable(absl::string_view table, const TakeColumns& take) override;
  absl::StatusOr<std::optional<v1::StoreMark>> ReadMark() override;
  absl::Status WriteMark(const v1::StoreMark* mark) override;
  absl::Status WriteRows(const std::vector<RowChange>& changes) override;
  absl::Status RemoveRows() override;

 private:
  SqliteStore(std::string path, sqlite3* database);

  // Opened and not prepared: nothing is written there.
  static absl::StatusOr<std::unique_ptr<SqliteStore>> OpenAsItIs(Files& files,
                                                                 const std::string& directory);
  absl::Status Prepare(const Options& options);  // pragmas and schema
  absl::Status KeepWriteAheadLog();
  absl::Status Execute(const char* sql);
  absl::Status Write(const std::vector<RowChange>& changes);
  absl::Status WriteValue(const RowChange& change);
  absl::Status ReadValues(const TakeColumns& take);
  absl::Status Error(int code) const;

  const std::string path_;
  sqlite3* const database_;
};

}  // namespace atolld
