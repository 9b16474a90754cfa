// TableStore: a Store as tables of rows, and the mark that says whether a coordinator may work with
// it.
//
// Law: a marked store is never loaded. Load says why, and where the run is; what a move needs
// beside that goes past the mark (ReadTable, WriteRows, ReadHeaders). Blocking; one thread's at a
// time.
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

  // FAILED_PRECONDITION: it is marked.
  absl::StatusOr<StoredRun> Load() final;
  // The same, whether or not it is marked.
  absl::StatusOr<StoredRun> LoadTables();

  // Gives `take` each row of a table by ascending keys; of kRunTable those whose value was said,
  // that is, neither zero nor empty. Errors of `take` are passed on.
  virtual absl::Status ReadTable(absl::string_view table, const TakeColumns& take) = 0;

  // Nothing: a coordinator may work with it.
  virtual absl::StatusOr<std::optional<v1::StoreMark>> ReadMark() = 0;
  // Durable when it returns OK. Null takes the mark away. Errors as Apply, and so do the next two.
  virtual absl::Status WriteMark(const v1::StoreMark* mark) = 0;

  // Makes these changes, durably. More than one transaction, if there are many: only a marked store
  // is written so.
  virtual absl::Status WriteRows(const std::vector<RowChange>& changes) = 0;
  virtual absl::Status RemoveRows() = 0;  // all

 protected:
  // What a load needs before it can read.
  virtual absl::Status PrepareToRead() { return absl::OkStatus(); }
};

// Whether a row of kRunTable says anything.
bool IsSaid(const RowColumns& columns);

// FAILED_PRECONDITION: why the store at `where`, which has this mark, is not to be used, and what
// to do.
absl::Status MarkFault(const v1::StoreMark& mark, absl::string_view where);

}  // namespace atolld
