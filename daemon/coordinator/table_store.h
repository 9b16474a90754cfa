// TableStore: a Store made of tables of rows. It may have a mark, which says that a coordinator
// must not work with it because its run has moved or is only partly copied.
//
// Law: Load refuses a marked store; its error says why, and where the run is. The calls that a move
// needs (ReadTable, WriteRows, ReadHeaders) ignore the mark. Its calls block. Used by one thread at
// a time.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "atoll/v1/store.pb.h"
#include "daemon/coordinator/store.h"
#include "daemon/coordinator/store_rows.h"

namespace atolld {

class TableStore : public Store {
 public:
  using TakeColumns = std::function<absl::Status(const RowColumns&)>;

  // Fails with FAILED_PRECONDITION if the store is marked (see MarkFault).
  absl::StatusOr<StoredRun> Load() final;
  // Loads the run even if the store is marked.
  absl::StatusOr<StoredRun> LoadTables();

  // Passes each row of a table to `take`, by ascending keys. Rows of kRunTable whose value is zero
  // or empty are left out. Stops at an error of `take` and returns it.
  virtual absl::Status ReadTable(absl::string_view table, const TakeColumns& take) = 0;

  // Returns the mark, or nullopt if the store is not marked.
  virtual absl::StatusOr<std::optional<v1::StoreMark>> ReadMark() = 0;
  // Sets the mark, or removes it if `mark` is null. The change is durable when this returns OK.
  // This call and the next two fail with the errors of Apply.
  virtual absl::Status WriteMark(const v1::StoreMark* mark) = 0;

  // Makes these changes durable. If there are many, it may use several transactions, which is safe
  // only if the store is marked.
  virtual absl::Status WriteRows(const std::vector<RowChange>& changes) = 0;
  virtual absl::Status RemoveRows() = 0;  // removes all rows

 protected:
  // Called before the run is loaded, for what a store must do before it can be read.
  virtual absl::Status PrepareToRead() { return absl::OkStatus(); }
};

// Returns true if the value of this row of kRunTable is neither zero nor empty.
bool IsSaid(const RowColumns& columns);

// Returns a FAILED_PRECONDITION error that says why the store at `where`, which has this mark, must
// not be used, and what to do.
absl::Status MarkFault(const v1::StoreMark& mark, absl::string_view where);

}  // namespace atolld
