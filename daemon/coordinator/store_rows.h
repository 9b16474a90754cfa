// What a coordinator remembers, as rows of tables: the one form that every durable store keeps,
// whatever holds the tables.
//
// RowsOf tells what an update changes; TakeRow gives a row that was read back to the run. A table's
// rows are known by their first column. Pure functions, any thread.
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

// The first column is the key: a number or a text, of one kind in a table.
using RowColumns = std::vector<RowValue>;

// The table "run" holds single values by name: {"epoch", 3}. The others hold records.
inline constexpr char kRunTable[] = "run";
// Read by range and never as a whole: {version, a serialised EntryHeader}.
inline constexpr char kHeaderTable[] = "headers";

struct RowChange {
  enum class Kind {
    kInsert,      // a row that is not there yet: the update is refused if it is
    kReplace,     // a row, whether or not it is there
    kRemove,      // the row of this key, if it is there; `columns` is the key alone
    kRemoveFrom,  // all rows from this key on
    kClear,       // all rows of the table; no columns
  };
  Kind kind;
  absl::string_view table;  // a literal
  RowColumns columns = {};
};

// In the order in which they are to be made; all of them or none.
std::vector<RowChange> RowsOf(const RunUpdate& update);

// The tables that a load reads, kRunTable first, in this order; not kHeaderTable.
const std::vector<absl::string_view>& LoadedTables();

// Of those: tables that every update that names them writes anew, all rows of them.
bool IsWrittenWhole(absl::string_view table);

// A row of such a table, the next by its key. DATA_LOSS: it cannot be read, and the message says
// what it is.
absl::Status TakeRow(absl::string_view table, const RowColumns& columns, StoredRun* run);

// A row of kHeaderTable. DATA_LOSS: as TakeRow, or it is another version's.
absl::Status TakeHeader(const RowColumns& columns, v1::EntryHeader* header);

}  // namespace atolld
