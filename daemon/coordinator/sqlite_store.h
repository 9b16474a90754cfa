// SqliteStore: the Store used in production. It is one SQLite database in WAL mode with
// synchronous=FULL.
//
// One coordinator at a time works with it: the process that opens it holds the folder's lock
// (posix_folder_lock.h). Other processes may read and copy the database meanwhile, which never
// delays a commit. Its calls block. Used by one thread.
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
    // The largest size of the database, in pages of 4 KiB; 0 means no limit.
    uint32_t most_pages = 0;
  };

  // Opens or makes `directory`/coordinator.db. Errors name the file. Fails with UNAVAILABLE if
  // another process has it open, with FAILED_PRECONDITION if a newer release wrote it, with
  // DATA_LOSS if it is not a coordinator's database, and with RESOURCE_EXHAUSTED if there is no
  // space.
  static absl::StatusOr<std::unique_ptr<TableStore>> Open(Files& files,
                                                          const std::string& directory);
  static absl::StatusOr<std::unique_ptr<TableStore>> Open(Files& files,
                                                          const std::string& directory,
                                                          const Options& options);

  // Copies `from`/coordinator.db, in its state at one instant, to `to`/coordinator.db, which must
  // not exist yet. A coordinator may commit to the source meanwhile. The copy is durable when this
  // returns; if it fails, a part of the file may be left. Fails with NOT_FOUND if there is nothing
  // to copy, with ALREADY_EXISTS if `to` has a database, and with UNAVAILABLE if a coordinator has
  // the source open on a file system where other processes cannot read it. Blocks.
  static absl::Status Copy(Files& files, const std::string& from, const std::string& to);

  ~SqliteStore() override;
  SqliteStore(const SqliteStore&) = delete;
  SqliteStore& operator=(const SqliteStore&) = delete;

  // Returns OK if a coordinator may work with the store, that is, if it has no mark. Fails with
  // FAILED_PRECONDITION if it has one (see TableStore::Load), and otherwise with the errors of
  // Copy. Changes nothing in the store. Blocks.
  static absl::Status CheckUnmarked(Files& files, const std::string& directory);

  // Returns the path of the database in a directory.
  static std::string PathIn(const std::string& directory);

  absl::Status Apply(const RunUpdate& update) override;
  // Applies all the updates in one transaction.
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

  // Opens the database without preparing it, so that nothing is written to it.
  static absl::StatusOr<std::unique_ptr<SqliteStore>> OpenAsItIs(Files& files,
                                                                 const std::string& directory);
  absl::Status Prepare(const Options& options);  // sets the pragmas and makes the schema
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
