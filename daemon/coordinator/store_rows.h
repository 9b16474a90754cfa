// The stored run as rows of tables. Every durable store keeps the run in this form, in a database
// of any kind.
//
// RowsOf turns an update into changes of rows; TakeRow adds a row that was read back to the run. A
// row is identified by its first column. Pure. May be called from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "atoll/v1/run.pb.h"
#include "membership/run/run_output.h"

namespace atolld {

using RowValue = std::variant<uint64_t, std::string>;

// The first column is the key. It is a number in all rows of a table, or a text in all of them.
using RowColumns = std::vector<RowValue>;

// The table "run" holds single values by name, such as {"epoch", 3}. The other tables hold records.
inline constexpr char kRunTable[] = "run";
// Its rows are {version, a serialised EntryHeader}. It is read by ranges and never as a whole.
inline constexpr char kHeaderTable[] = "headers";

struct RowChange {
  enum class Kind {
    kInsert,      // adds a row; the update is refused if the row exists
    kReplace,     // writes a row, whether it exists or not
    kRemove,      // removes the row with this key, if it exists; `columns` is the key alone
    kRemoveFrom,  // removes all rows from this key on
    kClear,       // removes all rows of the table; `columns` is empty
  };
  Kind kind;
  absl::string_view table;  // points to a string literal
  RowColumns columns = {};
};

// Returns the changes in the order in which they must be made. Either all of them must be made or
// none.
std::vector<RowChange> RowsOf(const RunUpdate& update);

// Returns the tables that a load reads, in this order, kRunTable first. kHeaderTable is not one of
// them.
const std::vector<absl::string_view>& LoadedTables();

// Returns true if an update that changes this loaded table writes all its rows anew.
bool IsWrittenWhole(absl::string_view table);

// Adds a row of a loaded table to `run`. The rows of a table must come in the order of their keys.
// Fails with DATA_LOSS if the row cannot be read; the message names the row.
absl::Status TakeRow(absl::string_view table, const RowColumns& columns, StoredRun* run);

// Reads a row of kHeaderTable. Fails with DATA_LOSS if the row cannot be read or if the version in
// the header differs from the key.
absl::Status TakeHeader(const RowColumns& columns, v1::EntryHeader* header);

}  // namespace atolld
