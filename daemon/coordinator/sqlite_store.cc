#include "daemon/coordinator/sqlite_store.h"

#include <sqlite3.h>

#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/casts.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "compression/base/status_macros.h"
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

  // True: a row is there. False: no more rows, or an error, which code() tells.
  bool Step();
  // Runs it to its end. The result code of SQLite: SQLITE_OK or an error.
  int Run();
  // The result code so far: SQLITE_OK while nothing failed.
  int code() const { return code_; }

  uint64_t Integer(int column) const;
  std::string Bytes(int column) const;

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

constexpr char kFile[] = "/coordinator.db";
// How long a transaction waits for somebody else's, such as that of a `sqlite3` at a terminal.
constexpr int kPatienceMilliseconds = 10000;

constexpr size_t kLongestPath = 500;  // SQLite's 512, less what it adds for its journal

// A checkpoint of before lacks what is counted from here on: the next start makes one of all
// headers.
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

// Each step makes the tables of one schema version from those of the version before it, an empty
// file first. A step that was released never changes.
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
    kSchemaStep8};
constexpr uint64_t kSchemaVersion = std::size(kSchemaSteps);

constexpr uint64_t kRevokedForGood = 2;

template <typename Message>
absl::Status Parse(const std::string& bytes, absl::string_view what, Message* message) {
  if (message->ParseFromString(bytes)) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(what, " cannot be read"));
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

absl::StatusOr<std::unique_ptr<Store>> SqliteStore::Open(Files& files,
                                                         const std::string& directory) {
  return Open(files, directory, Options());
}

absl::StatusOr<std::unique_ptr<Store>> SqliteStore::Open(Files& files, const std::string& directory,
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
  return std::unique_ptr<Store>(std::move(store));
}

absl::Status SqliteStore::Copy(Files& files, const std::string& from, const std::string& to) {
  // Closed by the destructors. Neither is prepared: nothing is written where it is copied from.
  const auto open = [](const std::string& directory, int flags) {
    const std::string path = directory + kFile;
    sqlite3* database = nullptr;
    const int opened = sqlite3_open_v2(path.c_str(), &database, flags, nullptr);
    return std::make_pair(opened, std::unique_ptr<SqliteStore>(new SqliteStore(path, database)));
  };
  if (!files.Exists(from + kFile)) {
    return absl::NotFoundError(absl::StrCat(from, kFile, ": there is none"));
  }
  const auto [source_code, source] = open(from, SQLITE_OPEN_READWRITE);
  RETURN_IF_ERROR(source->Error(source_code));
  sqlite3_busy_timeout(source->database_, kPatienceMilliseconds);
  if (files.Exists(to + kFile)) {
    return absl::AlreadyExistsError(absl::StrCat(to, kFile, ": it is there already"));
  }
  RETURN_IF_ERROR(files.CreatePrivate(to + kFile).status());
  const auto [target_code, target] = open(to, SQLITE_OPEN_READWRITE);
  RETURN_IF_ERROR(target->Error(target_code));
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
  // Whoever reads it elsewhere holds nothing up; for those who would write there is patience.
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

// Without one, a commit is neither durable nor atomic as synchronous = FULL has it here. Some file
// systems have no locks or no shared memory for it, and SQLite then keeps the mode that it had.
// Where only the shared memory is missing, one process can have a log that no other can read.
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

absl::Status SqliteStore::Apply(const RunUpdate& update) {
  RETURN_IF_ERROR(Execute("BEGIN IMMEDIATE"));
  absl::Status status = Write(update);
  if (status.ok()) status = Execute("COMMIT");
  // Some errors have rolled back already; then there is nothing left to undo.
  if (!status.ok()) Execute("ROLLBACK").IgnoreError();
  return status;
}

absl::Status SqliteStore::Write(const RunUpdate& update) {
  RETURN_IF_ERROR(WriteRun(update));
  if (update.gap) {
    SqliteStatement insert(database_, "INSERT INTO gaps VALUES (?, ?)");
    RETURN_IF_ERROR(Error(insert.Bind(update.gap->first).Bind(update.gap->last).Run()));
  }
  for (const v1::EntryHeader& header : update.headers) {
    SqliteStatement insert(database_, "INSERT INTO headers VALUES (?, ?)");
    insert.Bind(header.version()).Bind(header.SerializeAsString());
    RETURN_IF_ERROR(Error(insert.Run()));
  }
  if (update.checkpoint) RETURN_IF_ERROR(WriteCheckpoint(*update.checkpoint));
  if (update.leases) RETURN_IF_ERROR(WriteLeases(*update.leases));
  RETURN_IF_ERROR(WriteEnrolment(update));
  if (update.judged) RETURN_IF_ERROR(WriteJudged(*update.judged));
  for (const MemberRecord& member : update.members) {
    SqliteStatement insert(database_, "INSERT OR REPLACE INTO members VALUES (?, ?, ?, ?, ?)");
    insert.Bind(member.peer).Bind(member.address).Bind(member.state).Bind(member.why);
    insert.Bind(uint64_t{member.draining});
    RETURN_IF_ERROR(Error(insert.Run()));
  }
  for (const std::string& peer : update.forgotten) {
    SqliteStatement forget(database_, "DELETE FROM members WHERE peer = ?");
    RETURN_IF_ERROR(Error(forget.Bind(peer).Run()));
  }
  for (const v1::RoundRecord& round : update.rounds) {
    SqliteStatement insert(database_, "INSERT INTO rounds VALUES (?, ?)");
    insert.Bind(round.version()).Bind(round.SerializeAsString());
    RETURN_IF_ERROR(Error(insert.Run()));
  }
  for (const v1::EvaluationRecord& record : update.evaluations) {
    SqliteStatement insert(database_, "INSERT OR REPLACE INTO evaluations VALUES (?, ?)");
    insert.Bind(record.version()).Bind(record.SerializeAsString());
    RETURN_IF_ERROR(Error(insert.Run()));
  }
  if (update.seal) {
    SqliteStatement insert(database_, "INSERT INTO seal VALUES (1, ?)");
    insert.Bind(update.seal->SerializeAsString());
    RETURN_IF_ERROR(Error(insert.Run()));
  }
  return absl::OkStatus();
}

absl::Status SqliteStore::WriteCheckpoint(const HistoryCheckpoint& checkpoint) {
  SqliteStatement forget(database_, "DELETE FROM checkpoint_digests WHERE after >= ?");
  RETURN_IF_ERROR(Error(forget.Bind(checkpoint.after).Run()));
  if (checkpoint.after == 0) RETURN_IF_ERROR(Execute("DELETE FROM checkpoint_contributors"));
  SqliteStatement digests(database_, "INSERT INTO checkpoint_digests VALUES (?, ?)");
  RETURN_IF_ERROR(Error(digests.Bind(checkpoint.after).Bind(checkpoint.digests).Run()));
  for (const ContributorSum& sum : checkpoint.contributors) {
    SqliteStatement insert(
        database_, "INSERT OR REPLACE INTO checkpoint_contributors VALUES (?, ?, ?, ?, ?, ?, ?)");
    insert.Bind(sum.peer).Bind(sum.rounds).Bind(sum.tokens).Bind(sum.steps);
    insert.Bind(sum.first_version).Bind(sum.last_version);
    RETURN_IF_ERROR(Error(insert.Bind(absl::bit_cast<uint64_t>(sum.shares)).Run()));
  }
  SqliteStatement set(database_, "INSERT OR REPLACE INTO checkpoint VALUES (1, ?, ?)");
  return Error(set.Bind(checkpoint.version).Bind(checkpoint.proof).Run());
}

absl::Status SqliteStore::LoadCheckpoint(StoredRun* run) {
  SqliteStatement read(database_, "SELECT version, proof FROM checkpoint");
  if (read.Step()) {
    run->checkpoint.version = read.Integer(0);
    run->checkpoint.proof = read.Bytes(1);
  }
  RETURN_IF_ERROR(Error(read.code()));
  SqliteStatement digests(database_, "SELECT digests FROM checkpoint_digests ORDER BY after");
  while (digests.Step()) run->checkpoint.digests += digests.Bytes(0);
  RETURN_IF_ERROR(Error(digests.code()));
  SqliteStatement sums(database_,
                       "SELECT peer, rounds, tokens, steps, first_version, last_version, "
                       "share_bits FROM checkpoint_contributors ORDER BY peer");
  while (sums.Step()) {
    run->checkpoint.contributors.push_back(
        ContributorSum{sums.Bytes(0), sums.Integer(1), sums.Integer(2), sums.Integer(3),
                       sums.Integer(4), sums.Integer(5), absl::bit_cast<double>(sums.Integer(6))});
  }
  RETURN_IF_ERROR(Error(sums.code()));
  SqliteStatement gaps(database_, "SELECT first, last FROM gaps ORDER BY first");
  while (gaps.Step()) run->gaps.push_back(HistoryGap{gaps.Integer(0), gaps.Integer(1)});
  return Error(gaps.code());
}

absl::Status SqliteStore::WriteJudged(const JudgeRecord& judged) {
  RETURN_IF_ERROR(Execute("DELETE FROM judged_peers"));
  for (const JudgedPeer& peer : judged.peers) {
    SqliteStatement insert(database_, "INSERT INTO judged_peers VALUES (?, ?, ?, ?, ?)");
    insert.Bind(peer.peer).Bind(peer.offences).Bind(peer.refused).Bind(peer.clipped);
    RETURN_IF_ERROR(Error(insert.Bind(peer.offence).Run()));
  }
  RETURN_IF_ERROR(Execute("DELETE FROM median_lengths"));
  for (size_t i = 0; i < judged.medians.size(); ++i) {
    const auto bits = absl::bit_cast<uint64_t>(judged.medians[i]);
    SqliteStatement insert(database_, "INSERT INTO median_lengths VALUES (?, ?)");
    RETURN_IF_ERROR(Error(insert.Bind(uint64_t{i}).Bind(bits).Run()));
  }
  return absl::OkStatus();
}

absl::Status SqliteStore::LoadJudged(JudgeRecord* judged) {
  SqliteStatement peers(database_,
                        "SELECT peer, offences, refused, clipped, offence FROM judged_peers "
                        "ORDER BY peer");
  while (peers.Step()) {
    judged->peers.push_back(JudgedPeer{peers.Bytes(0), peers.Integer(1), peers.Integer(2),
                                       peers.Integer(3), peers.Bytes(4)});
  }
  RETURN_IF_ERROR(Error(peers.code()));
  SqliteStatement medians(database_, "SELECT bits FROM median_lengths ORDER BY place");
  while (medians.Step()) {
    judged->medians.push_back(absl::bit_cast<double>(uint64_t{medians.Integer(0)}));
  }
  return Error(medians.code());
}

absl::Status SqliteStore::WriteEnrolment(const RunUpdate& update) {
  for (const TokenRecord& token : update.tokens) {
    SqliteStatement insert(database_, "INSERT OR REPLACE INTO tokens VALUES (?, ?, ?, ?, ?, ?)");
    insert.Bind(token.serial).Bind(token.peer).Bind(token.role);
    insert.Bind(static_cast<uint64_t>(token.expires)).Bind(uint64_t{token.revoked}).Bind(token.key);
    RETURN_IF_ERROR(Error(insert.Run()));
  }
  for (const CertificateRecord& certificate : update.certificates) {
    SqliteStatement insert(database_,
                           "INSERT OR REPLACE INTO certificates VALUES (?, ?, ?, ?, ?, ?, ?, ?)");
    insert.Bind(certificate.serial).Bind(certificate.peer);
    insert.Bind(certificate.for_good ? kRevokedForGood : uint64_t{certificate.revoked});
    insert.Bind(static_cast<uint64_t>(certificate.expires)).Bind(certificate.role);
    insert.Bind(certificate.key).Bind(static_cast<uint64_t>(certificate.issued));
    insert.Bind(static_cast<uint64_t>(certificate.last_seen));
    RETURN_IF_ERROR(Error(insert.Run()));
  }
  for (const std::string& serial : update.purged) {
    for (const char* sql :
         {"DELETE FROM tokens WHERE serial = ?", "DELETE FROM certificates WHERE serial = ?"}) {
      SqliteStatement purge(database_, sql);
      RETURN_IF_ERROR(Error(purge.Bind(serial).Run()));
    }
  }
  return absl::OkStatus();
}

absl::Status SqliteStore::LoadEnrolment(StoredRun* run) {
  SqliteStatement tokens(database_,
                         "SELECT serial, peer, role, expires, revoked, key FROM tokens "
                         "ORDER BY serial");
  while (tokens.Step()) {
    run->tokens.push_back(TokenRecord{tokens.Bytes(0), tokens.Bytes(1), tokens.Bytes(2),
                                      static_cast<int64_t>(tokens.Integer(3)),
                                      tokens.Integer(4) != 0, tokens.Bytes(5)});
  }
  RETURN_IF_ERROR(Error(tokens.code()));
  SqliteStatement certificates(
      database_,
      "SELECT serial, peer, revoked, expires, role, key, issued, last_seen FROM certificates "
      "ORDER BY serial");
  while (certificates.Step()) {
    run->certificates.push_back(CertificateRecord{
        certificates.Bytes(0), certificates.Bytes(1), certificates.Integer(2) != 0,
        static_cast<int64_t>(certificates.Integer(3)), certificates.Integer(2) == kRevokedForGood,
        certificates.Bytes(4), certificates.Bytes(5), static_cast<int64_t>(certificates.Integer(6)),
        static_cast<int64_t>(certificates.Integer(7))});
  }
  return Error(certificates.code());
}

absl::Status SqliteStore::WriteRun(const RunUpdate& update) {
  if (update.spec) {
    SqliteStatement set(database_, "UPDATE run SET spec = ?");
    RETURN_IF_ERROR(Error(set.Bind(update.spec->SerializeAsString()).Run()));
  }
  if (update.epoch) {
    SqliteStatement set(database_, "UPDATE run SET epoch = ?");
    RETURN_IF_ERROR(Error(set.Bind(*update.epoch).Run()));
  }
  if (update.control) {
    SqliteStatement set(database_, "UPDATE run SET control = ?, control_reason = ?");
    set.Bind(static_cast<uint64_t>(update.control->state)).Bind(update.control->reason);
    RETURN_IF_ERROR(Error(set.Run()));
  }
  if (update.started) RETURN_IF_ERROR(Execute("UPDATE run SET started = 1"));
  if (update.genesis) {
    SqliteStatement set(database_, "UPDATE run SET genesis = ?");
    RETURN_IF_ERROR(Error(set.Bind(update.genesis->SerializeAsString()).Run()));
  }
  return absl::OkStatus();
}

absl::Status SqliteStore::WriteLeases(const LeaseRecords& leases) {
  // A handful of ranges a peer: writing them all is cheaper than telling what changed.
  RETURN_IF_ERROR(Execute("DELETE FROM leases"));
  for (const LeaseRecord& lease : leases.ranges) {
    SqliteStatement insert(database_, "INSERT INTO leases VALUES (?, ?, ?)");
    insert.Bind(lease.first).Bind(lease.count).Bind(lease.holder);
    RETURN_IF_ERROR(Error(insert.Run()));
  }
  SqliteStatement set(database_, "UPDATE run SET lease_next = ?");
  return Error(set.Bind(leases.next).Run());
}

absl::StatusOr<StoredRun> SqliteStore::Load() {
  StoredRun run;
  RETURN_IF_ERROR(Annotate(LoadRun(&run), path_));
  RETURN_IF_ERROR(Annotate(LoadCheckpoint(&run), path_));
  RETURN_IF_ERROR(Annotate(LoadLeases(&run), path_));
  RETURN_IF_ERROR(Annotate(LoadRecords(&run), path_));
  RETURN_IF_ERROR(Annotate(LoadEnrolment(&run), path_));
  RETURN_IF_ERROR(Annotate(LoadJudged(&run.judged), path_));
  return run;
}

absl::Status SqliteStore::LoadRun(StoredRun* run) {
  SqliteStatement read(database_,
                       "SELECT spec, epoch, started, genesis, lease_next, control, control_reason "
                       "FROM run");
  if (!read.Step()) {
    RETURN_IF_ERROR(Error(read.code()));
    return absl::DataLossError("the run's row is missing");
  }
  const std::string spec = read.Bytes(0);
  if (!spec.empty()) RETURN_IF_ERROR(Parse(spec, "the run's settings", &run->spec.emplace()));
  run->epoch = read.Integer(1);
  run->started = read.Integer(2) != 0;
  const std::string genesis = read.Bytes(3);
  if (!genesis.empty()) RETURN_IF_ERROR(Parse(genesis, "version 0", &run->genesis.emplace()));
  run->leases.next = read.Integer(4);
  if (read.Integer(5) > static_cast<uint64_t>(RunControl::State::kStopping)) {
    return absl::DataLossError("whether the run is paused or stopped cannot be read");
  }
  run->control.state = static_cast<RunControl::State>(read.Integer(5));
  run->control.reason = read.Bytes(6);
  return absl::OkStatus();
}

absl::Status SqliteStore::LoadLeases(StoredRun* run) {
  SqliteStatement leases(database_, "SELECT first, count, holder FROM leases ORDER BY first");
  while (leases.Step()) {
    run->leases.ranges.push_back(
        LeaseRecord{leases.Bytes(2), leases.Integer(0), leases.Integer(1)});
  }
  RETURN_IF_ERROR(Error(leases.code()));
  SqliteStatement members(database_,
                          "SELECT peer, address, state, why, draining FROM members ORDER BY peer");
  while (members.Step()) {
    run->members.push_back(MemberRecord{members.Bytes(0), members.Bytes(1), members.Bytes(2),
                                        members.Bytes(3), members.Integer(4) != 0});
  }
  return Error(members.code());
}

absl::Status SqliteStore::LoadRecords(StoredRun* run) {
  SqliteStatement rounds(database_, "SELECT version, record FROM rounds ORDER BY version");
  while (rounds.Step()) {
    RETURN_IF_ERROR(Parse(rounds.Bytes(1), absl::StrCat("round ", rounds.Integer(0)),
                          &run->rounds.emplace_back()));
  }
  RETURN_IF_ERROR(Error(rounds.code()));
  SqliteStatement evaluations(database_,
                              "SELECT version, record FROM evaluations ORDER BY version");
  while (evaluations.Step()) {
    RETURN_IF_ERROR(Parse(evaluations.Bytes(1),
                          absl::StrCat("evaluation of version ", evaluations.Integer(0)),
                          &run->evaluations.emplace_back()));
  }
  RETURN_IF_ERROR(Error(evaluations.code()));
  SqliteStatement seal(database_, "SELECT seal FROM seal");
  if (seal.Step()) RETURN_IF_ERROR(Parse(seal.Bytes(0), "the seal", &run->seal.emplace()));
  return Error(seal.code());
}

absl::StatusOr<std::vector<v1::EntryHeader>> SqliteStore::ReadHeaders(uint64_t first,
                                                                      uint32_t limit) {
  std::vector<v1::EntryHeader> headers;
  SqliteStatement read(
      database_, "SELECT version, header FROM headers WHERE version >= ? ORDER BY version LIMIT ?");
  read.Bind(first).Bind(uint64_t{limit});
  while (read.Step()) {
    const std::string name = absl::StrCat(path_, ": header ", read.Integer(0));
    RETURN_IF_ERROR(Parse(read.Bytes(1), name, &headers.emplace_back()));
    if (headers.back().version() != read.Integer(0)) {
      return absl::DataLossError(absl::StrCat(name, " is that of ", headers.back().version()));
    }
  }
  RETURN_IF_ERROR(Error(read.code()));
  return headers;
}

}  // namespace atolld
