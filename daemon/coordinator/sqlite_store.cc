#include "daemon/coordinator/sqlite_store.h"

#include <sqlite3.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "compression/base/status_macros.h"
#include "daemon/coordinator/store_rows.h"
#include "daemon/env/posix_files.h"

namespace atolld {
namespace {

// One SQL statement with its bound values and rows, released at the end of its scope.
class SqliteStatement {
 public:
  SqliteStatement(sqlite3* database, const char* sql);
  ~SqliteStatement();
  SqliteStatement(const SqliteStatement&) = delete;
  SqliteStatement& operator=(const SqliteStatement&) = delete;

  // Binds the next parameter.
  SqliteStatement& Bind(uint64_t value);
  SqliteStatement& Bind(const std::string& bytes);
  SqliteStatement& Bind(const RowValue& value);

  // True: a row is there. False: no more rows, or an error, which code() tells.
  bool Step();
  // Runs it to its end. The result code of SQLite: SQLITE_OK or an error.
  int Run();
  // The result code so far: SQLITE_OK while nothing failed.
  int code() const { return code_; }

  uint64_t Integer(int column) const;
  std::string Bytes(int column) const;
  RowColumns Row() const;

 private:
  sqlite3_stmt* statement_ = nullptr;
  int code_;
  int bound_ = 0;
};

SqliteStatement::SqliteStatement(sqlite3* database, const char* sql)
    : code_(sqlite3_prepare_v2(database, sql, -1, &statement_, nullptr)) {}

SqliteStatement::~SqliteStatement() { sqlite3_finalize(statement_); }

SqliteStatement& SqliteStatement::Bind(uint64_t value) {
  // SQLite's integers are signed; the bits come back as they went in.
  if (code_ == SQLITE_OK)
    code_ = sqlite3_bind_int64(statement_, ++bound_, static_cast<sqlite3_int64>(value));
  return *this;
}

SqliteStatement& SqliteStatement::Bind(const std::string& bytes) {
  if (code_ == SQLITE_OK) {
    code_ = sqlite3_bind_blob64(statement_, ++bound_, bytes.data(), bytes.size(), SQLITE_TRANSIENT);
  }
  return *this;
}

SqliteStatement& SqliteStatement::Bind(const RowValue& value) {
  if (const auto* number = std::get_if<uint64_t>(&value)) return Bind(*number);
  return Bind(std::get<std::string>(value));
}

bool SqliteStatement::Step() {
  if (code_ != SQLITE_OK) return false;
  const int result = sqlite3_step(statement_);
  if (result == SQLITE_ROW) return true;
  if (result != SQLITE_DONE) code_ = result;
  return false;
}

int SqliteStatement::Run() {
  while (Step()) {
  }
  return code_;
}

uint64_t SqliteStatement::Integer(int column) const {
  return static_cast<uint64_t>(sqlite3_column_int64(statement_, column));
}

std::string SqliteStatement::Bytes(int column) const {
  const void* bytes = sqlite3_column_blob(statement_, column);
  const int size = sqlite3_column_bytes(statement_, column);
  return bytes == nullptr ? std::string()
                          : std::string(static_cast<const char*>(bytes), static_cast<size_t>(size));
}

RowColumns SqliteStatement::Row() const {
  RowColumns row;
  for (int i = 0; i < sqlite3_column_count(statement_); ++i) {
    if (sqlite3_column_type(statement_, i) == SQLITE_INTEGER) {
      row.emplace_back(Integer(i));
    } else {
      row.emplace_back(Bytes(i));
    }
  }
  return row;
}

constexpr char kFile[] = "/coordinator.db";
// How long a transaction waits for another process's, such as that of a `sqlite3` at a terminal.
constexpr int kPatienceMilliseconds = 10000;

constexpr size_t kLongestPath = 500;  // SQLite's 512, less what it adds for its journal

// The columns of the only row of kRunTable, a single value each, and their initial values.
constexpr const char* kValues[] = {"spec",       "epoch",   "started",       "genesis",
                                   "lease_next", "control", "control_reason"};
constexpr char kNoValues[] =
    "UPDATE run SET spec = NULL, epoch = 0, started = 0, genesis = NULL, lease_next = 0, "
    "control = 0, control_reason = x''";

// An earlier checkpoint lacks what is counted from this version on; the next start makes one from
// all headers.
constexpr char kSchemaStep8[] = R"(
  DELETE FROM checkpoint;
  DELETE FROM checkpoint_digests;
  DROP TABLE checkpoint_contributors;
  CREATE TABLE checkpoint_contributors (
    peer BLOB PRIMARY KEY, rounds INTEGER NOT NULL, tokens INTEGER NOT NULL,
    steps INTEGER NOT NULL, first_version INTEGER NOT NULL, last_version INTEGER NOT NULL,
    share_bits INTEGER NOT NULL) WITHOUT ROWID;
  PRAGMA user_version = 8;
)";

// The mark of a store whose run has moved, or has not arrived completely (table_store.h).
constexpr char kSchemaStep9[] = R"(
  CREATE TABLE mark (id INTEGER PRIMARY KEY CHECK (id = 1), record BLOB NOT NULL);
  PRAGMA user_version = 9;
)";

// Each step makes the tables of one schema version from those of the version before; the first
// begins with an empty file. A released step never changes.
constexpr const char* kSchemaSteps[] = {
    R"(
  CREATE TABLE run (
    id INTEGER PRIMARY KEY CHECK (id = 1), spec BLOB, epoch INTEGER NOT NULL,
    started INTEGER NOT NULL, genesis BLOB, lease_next INTEGER NOT NULL);
  INSERT INTO run VALUES (1, NULL, 0, 0, NULL, 0);
  CREATE TABLE headers (version INTEGER PRIMARY KEY, header BLOB NOT NULL);
  CREATE TABLE leases (first INTEGER PRIMARY KEY, count INTEGER NOT NULL, holder BLOB NOT NULL);
  CREATE TABLE members (
    peer BLOB PRIMARY KEY, address BLOB NOT NULL, state BLOB NOT NULL) WITHOUT ROWID;
  CREATE TABLE evaluations (version INTEGER PRIMARY KEY, record BLOB NOT NULL);
  CREATE TABLE rounds (version INTEGER PRIMARY KEY, record BLOB NOT NULL);
  CREATE TABLE seal (id INTEGER PRIMARY KEY CHECK (id = 1), seal BLOB NOT NULL);
  PRAGMA user_version = 1;
)",
    R"(
  ALTER TABLE run ADD COLUMN control INTEGER NOT NULL DEFAULT 0;
  ALTER TABLE run ADD COLUMN control_reason BLOB NOT NULL DEFAULT x'';
  ALTER TABLE members ADD COLUMN why BLOB NOT NULL DEFAULT x'';
  ALTER TABLE members ADD COLUMN draining INTEGER NOT NULL DEFAULT 0;
  PRAGMA user_version = 2;
)",
    R"(
  CREATE TABLE tokens (
    serial BLOB PRIMARY KEY, peer BLOB NOT NULL, role BLOB NOT NULL, expires INTEGER NOT NULL,
    revoked INTEGER NOT NULL, key BLOB NOT NULL) WITHOUT ROWID;
  CREATE TABLE certificates (
    serial BLOB PRIMARY KEY, peer BLOB NOT NULL, revoked INTEGER NOT NULL) WITHOUT ROWID;
  PRAGMA user_version = 3;
)",
    R"(
  CREATE TABLE judged_peers (
    peer BLOB PRIMARY KEY, offences INTEGER NOT NULL, refused INTEGER NOT NULL,
    clipped INTEGER NOT NULL, offence BLOB NOT NULL) WITHOUT ROWID;
  CREATE TABLE median_lengths (place INTEGER PRIMARY KEY, bits INTEGER NOT NULL);
  PRAGMA user_version = 4;
)",
    R"(
  ALTER TABLE certificates ADD COLUMN expires INTEGER NOT NULL DEFAULT 0;
  PRAGMA user_version = 5;
)",
    // `revoked` has a third value from here on: 2, for good.
    R"(
  ALTER TABLE certificates ADD COLUMN role BLOB NOT NULL DEFAULT x'';
  ALTER TABLE certificates ADD COLUMN key BLOB NOT NULL DEFAULT x'';
  ALTER TABLE certificates ADD COLUMN issued INTEGER NOT NULL DEFAULT 0;
  ALTER TABLE certificates ADD COLUMN last_seen INTEGER NOT NULL DEFAULT 0;
  PRAGMA user_version = 6;
)",
    R"(
  CREATE TABLE checkpoint (
    id INTEGER PRIMARY KEY CHECK (id = 1), version INTEGER NOT NULL, proof BLOB NOT NULL);
  CREATE TABLE checkpoint_digests (after INTEGER PRIMARY KEY, digests BLOB NOT NULL);
  CREATE TABLE checkpoint_contributors (
    peer BLOB PRIMARY KEY, rounds INTEGER NOT NULL, tokens INTEGER NOT NULL) WITHOUT ROWID;
  CREATE TABLE gaps (first INTEGER PRIMARY KEY, last INTEGER NOT NULL);
  PRAGMA user_version = 7;
)",
    kSchemaStep8, kSchemaStep9};
constexpr uint64_t kSchemaVersion = std::size(kSchemaSteps);

// Returns the key column of a table from which single rows are removed.
absl::string_view KeyColumn(absl::string_view table) {
  if (table == "members") return "peer";
  if (table == "checkpoint_digests") return "after";
  return "serial";
}

// Returns the statement that makes a change, with a parameter for each of its columns; the name of
// a single value is not a parameter but a column of this table.
std::string StatementOf(const RowChange& change) {
  const std::string marks =
      absl::StrJoin(std::vector<absl::string_view>(change.columns.size(), "?"), ", ");
  switch (change.kind) {
    case RowChange::Kind::kInsert:
      return absl::StrCat("INSERT INTO ", change.table, " VALUES (", marks, ")");
    case RowChange::Kind::kReplace:
      return absl::StrCat("INSERT OR REPLACE INTO ", change.table, " VALUES (", marks, ")");
    case RowChange::Kind::kRemove:
      return absl::StrCat("DELETE FROM ", change.table, " WHERE ", KeyColumn(change.table), " = ?");
    case RowChange::Kind::kRemoveFrom:
      return absl::StrCat("DELETE FROM ", change.table, " WHERE ", KeyColumn(change.table),
                          " >= ?");
    case RowChange::Kind::kClear:
      return absl::StrCat("DELETE FROM ", change.table);
  }
  return "";
}

}  // namespace

SqliteStore::SqliteStore(std::string path, sqlite3* database)
    : path_(std::move(path)), database_(database) {}

SqliteStore::~SqliteStore() { sqlite3_close(database_); }

absl::Status SqliteStore::Error(int code) const {
  if (code == SQLITE_OK || code == SQLITE_DONE) return absl::OkStatus();
  const std::string text = absl::StrCat(path_, ": ", sqlite3_errmsg(database_));
  if ((code & 0xff) == SQLITE_IOERR) {
    const int error = sqlite3_system_errno(database_);
    if (error != 0) return ErrnoStatus(error, path_, sqlite3_errmsg(database_));
  }
  switch (code & 0xff) {
    case SQLITE_FULL:
      return absl::ResourceExhaustedError(text);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return absl::UnavailableError(absl::StrCat(path_, ": another process has it open"));
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return absl::DataLossError(text);
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
    case SQLITE_READONLY:
      return absl::PermissionDeniedError(text);
    default:
      return absl::UnknownError(text);
  }
}

std::string SqliteStore::PathIn(const std::string& directory) { return directory + kFile; }

absl::StatusOr<std::unique_ptr<TableStore>> SqliteStore::Open(Files& files,
                                                              const std::string& directory) {
  return Open(files, directory, Options());
}

absl::StatusOr<std::unique_ptr<TableStore>> SqliteStore::Open(Files& files,
                                                              const std::string& directory,
                                                              const Options& options) {
  RETURN_IF_ERROR(files.MakeDirectories(directory));
  const std::string path = directory + kFile;
  sqlite3* database = nullptr;
  const int opened =
      sqlite3_open_v2(path.c_str(), &database, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nullptr);
  std::unique_ptr<SqliteStore> store(new SqliteStore(path, database));
  if (opened == SQLITE_CANTOPEN && path.size() > kLongestPath) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": the path has ", path.size(),
                                                   " bytes, and SQLite takes at most ",
                                                   kLongestPath, "; choose a shorter folder"));
  }
  RETURN_IF_ERROR(store->Error(opened));
  RETURN_IF_ERROR(store->Prepare(options));
  // The file's own name must survive a power cut too.
  RETURN_IF_ERROR(files.SyncDirectory(directory));
  return std::unique_ptr<TableStore>(std::move(store));
}

absl::StatusOr<std::unique_ptr<SqliteStore>> SqliteStore::OpenAsItIs(Files& files,
                                                                     const std::string& directory) {
  const std::string path = PathIn(directory);
  if (!files.Exists(path)) return absl::NotFoundError(absl::StrCat(path, ": there is none"));
  sqlite3* database = nullptr;
  const int opened = sqlite3_open_v2(path.c_str(), &database, SQLITE_OPEN_READWRITE, nullptr);
  std::unique_ptr<SqliteStore> store(new SqliteStore(path, database));  // whose end closes it
  RETURN_IF_ERROR(store->Error(opened));
  sqlite3_busy_timeout(database, kPatienceMilliseconds);
  return store;
}

absl::Status SqliteStore::CheckUnmarked(Files& files, const std::string& directory) {
  ASSIGN_OR_RETURN(const std::unique_ptr<SqliteStore> store, OpenAsItIs(files, directory));
  ASSIGN_OR_RETURN(const std::optional<v1::StoreMark> mark, store->ReadMark());
  return mark ? MarkFault(*mark, store->path_) : absl::OkStatus();
}

absl::Status SqliteStore::Copy(Files& files, const std::string& from, const std::string& to) {
  ASSIGN_OR_RETURN(const std::unique_ptr<SqliteStore> source, OpenAsItIs(files, from));
  if (files.Exists(PathIn(to))) {
    return absl::AlreadyExistsError(absl::StrCat(PathIn(to), ": it is there already"));
  }
  RETURN_IF_ERROR(files.CreatePrivate(PathIn(to)).status());
  ASSIGN_OR_RETURN(const std::unique_ptr<SqliteStore> target, OpenAsItIs(files, to));
  sqlite3_backup* backup =
      sqlite3_backup_init(target->database_, "main", source->database_, "main");
  if (backup == nullptr) return target->Error(sqlite3_errcode(target->database_));
  const int stepped = sqlite3_backup_step(backup, -1);  // all pages, in one read transaction
  const int finished = sqlite3_backup_finish(backup);
  if (stepped == SQLITE_BUSY || stepped == SQLITE_LOCKED) return source->Error(stepped);
  RETURN_IF_ERROR(target->Error(finished));
  return files.SyncDirectory(to);
}

absl::Status SqliteStore::Prepare(const Options& options) {
  // A reader elsewhere holds nothing up; a writer gets this patience.
  sqlite3_busy_timeout(database_, kPatienceMilliseconds);
  RETURN_IF_ERROR(KeepWriteAheadLog());
  RETURN_IF_ERROR(Execute("PRAGMA synchronous = FULL"));
  if (options.most_pages != 0) {
    RETURN_IF_ERROR(Execute(absl::StrCat("PRAGMA max_page_count = ", options.most_pages).c_str()));
  }
  RETURN_IF_ERROR(Execute("BEGIN IMMEDIATE"));
  uint64_t version = 0;
  {
    SqliteStatement read(database_, "PRAGMA user_version");
    if (read.Step()) version = read.Integer(0);
    RETURN_IF_ERROR(Error(read.code()));
  }
  absl::Status status;
  if (version > kSchemaVersion) {
    status = absl::FailedPreconditionError(
        absl::StrCat(path_, ": written by a newer release (schema ", version, ", this one knows ",
                     kSchemaVersion, ")"));
  }
  for (uint64_t step = version; step < kSchemaVersion && status.ok(); ++step) {
    status = Execute(kSchemaSteps[step]);
  }
  if (status.ok()) status = Execute("COMMIT");
  if (!status.ok()) Execute("ROLLBACK").IgnoreError();
  return status;
}

// Without a write-ahead log a commit is neither durable nor atomic as synchronous = FULL requires.
// Some file systems have no locks or no shared memory for it, and SQLite then keeps its former
// mode. If only the shared memory is missing, one process can have a log that no other can read.
absl::Status SqliteStore::KeepWriteAheadLog() {
  absl::Status status;
  std::string mode;
  for (const char* locking : {"PRAGMA locking_mode = NORMAL", "PRAGMA locking_mode = EXCLUSIVE"}) {
    RETURN_IF_ERROR(Execute(locking));
    SqliteStatement set(database_, "PRAGMA journal_mode = WAL");
    mode = set.Step() ? set.Bytes(0) : std::string();
    status = Error(set.code());
    // Another process has it, it is no database, or the disk is full.
    if (absl::IsUnavailable(status) || absl::IsDataLoss(status) ||
        absl::IsResourceExhausted(status)) {
      return status;
    }
    if (status.ok() && mode == "wal") return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      status.ok() ? absl::StrCat(path_, ": its journal mode stays \"", mode, "\"")
                  : std::string(status.message()),
      "; a coordinator's folder must be on a file system that takes SQLite's write-ahead log, such "
      "as that of a local disk"));
}

absl::Status SqliteStore::Execute(const char* sql) {
  return Error(sqlite3_exec(database_, sql, nullptr, nullptr, nullptr));
}

absl::Status SqliteStore::Apply(const RunUpdate& update) { return WriteRows(RowsOf(update)); }

absl::StatusOr<size_t> SqliteStore::ApplyFirst(absl::Span<const RunUpdate* const> updates) {
  std::vector<RowChange> changes;
  for (const RunUpdate* const update : updates) {
    std::vector<RowChange> more = RowsOf(*update);
    std::move(more.begin(), more.end(), std::back_inserter(changes));
  }
  RETURN_IF_ERROR(WriteRows(changes));
  return updates.size();
}

absl::Status SqliteStore::WriteRows(const std::vector<RowChange>& changes) {
  RETURN_IF_ERROR(Execute("BEGIN IMMEDIATE"));
  absl::Status status = Write(changes);
  if (status.ok()) status = Execute("COMMIT");
  // Some errors have rolled back already; then there is nothing left to undo.
  if (!status.ok()) Execute("ROLLBACK").IgnoreError();
  return status;
}

absl::Status SqliteStore::Write(const std::vector<RowChange>& changes) {
  for (const RowChange& change : changes) {
    if (change.table == kRunTable) {
      RETURN_IF_ERROR(WriteValue(change));
      continue;
    }
    SqliteStatement make(database_, StatementOf(change).c_str());
    for (const RowValue& value : change.columns) make.Bind(value);
    RETURN_IF_ERROR(Error(make.Run()));
  }
  return absl::OkStatus();
}

// The only row of the table has a column for each single value.
absl::Status SqliteStore::WriteValue(const RowChange& change) {
  if (change.kind == RowChange::Kind::kClear) return Execute(kNoValues);
  const std::string& name = std::get<std::string>(change.columns[0]);
  SqliteStatement set(database_, absl::StrCat("UPDATE run SET ", name, " = ?").c_str());
  return Error(set.Bind(change.columns[1]).Run());
}

absl::Status SqliteStore::RemoveRows() {
  std::vector<RowChange> changes;
  for (const absl::string_view table : LoadedTables()) {
    changes.push_back({RowChange::Kind::kClear, table});
  }
  changes.push_back({RowChange::Kind::kClear, kHeaderTable});
  return WriteRows(changes);
}

absl::Status SqliteStore::ReadTable(absl::string_view table, const TakeColumns& take) {
  if (table == kRunTable) return Annotate(ReadValues(take), path_);
  SqliteStatement read(database_, absl::StrCat("SELECT * FROM ", table, " ORDER BY 1").c_str());
  while (read.Step()) RETURN_IF_ERROR(Annotate(take(read.Row()), path_));
  return Error(read.code());
}

absl::Status SqliteStore::ReadValues(const TakeColumns& take) {
  SqliteStatement read(database_,
                       absl::StrCat("SELECT ", absl::StrJoin(kValues, ", "), " FROM run").c_str());
  if (!read.Step()) {
    RETURN_IF_ERROR(Error(read.code()));
    return absl::DataLossError("the run's row is missing");
  }
  const RowColumns row = read.Row();
  std::map<std::string, RowValue> said;
  for (size_t i = 0; i < row.size(); ++i) said.emplace(kValues[i], row[i]);
  for (const auto& [name, value] : said) {
    const RowColumns columns = {name, value};
    if (IsSaid(columns)) RETURN_IF_ERROR(take(columns));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<v1::StoreMark>> SqliteStore::ReadMark() {
  std::optional<v1::StoreMark> mark;
  SqliteStatement exists(database_, "SELECT 1 FROM sqlite_master WHERE name = 'mark'");
  const bool has_table = exists.Step();
  RETURN_IF_ERROR(Error(exists.code()));
  if (!has_table) return mark;  // an older release's, that is only read
  SqliteStatement read(database_, "SELECT record FROM mark");
  if (read.Step() && !mark.emplace().ParseFromString(read.Bytes(0))) {
    return absl::DataLossError(absl::StrCat(path_, ": its mark cannot be read"));
  }
  RETURN_IF_ERROR(Error(read.code()));
  return mark;
}

absl::Status SqliteStore::WriteMark(const v1::StoreMark* mark) {
  if (mark == nullptr) return Execute("DELETE FROM mark");
  SqliteStatement write(database_, "INSERT OR REPLACE INTO mark VALUES (1, ?)");
  return Error(write.Bind(mark->SerializeAsString()).Run());
}

absl::StatusOr<std::vector<v1::EntryHeader>> SqliteStore::ReadHeaders(uint64_t first,
                                                                      uint32_t limit) {
  std::vector<v1::EntryHeader> headers;
  SqliteStatement read(
      database_, "SELECT version, header FROM headers WHERE version >= ? ORDER BY version LIMIT ?");
  read.Bind(first).Bind(uint64_t{limit});
  while (read.Step()) {
    RETURN_IF_ERROR(Annotate(TakeHeader(read.Row(), &headers.emplace_back()), path_));
  }
  RETURN_IF_ERROR(Error(read.code()));
  return headers;
}

}  // namespace atolld
