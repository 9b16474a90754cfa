// SqliteStatement: one SQL statement with its bound values and rows, released at the end of its
// scope.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

struct sqlite3;
struct sqlite3_stmt;

namespace atolld {

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

}  // namespace atolld
