#include "daemon/coordinator/sqlite_statement.h"

#include <sqlite3.h>

namespace atolld {

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

}  // namespace atolld
