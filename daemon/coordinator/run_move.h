// A run moved from one store to another: copied, checked, and never in two stores at a time.
//
// Law: at every instant a coordinator may work with at most one of the two stores. First the target
// is marked as arriving, then it gets the rows, which are read again and compared, and every header
// is checked there. Then the source is marked as moved, and only then the target's mark goes. Cut
// short at any instant, the same call again ends the move; until the source is marked, it also goes
// on as it was. Blocking; both stores are held by whoever calls, and nobody else works with them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "daemon/coordinator/table_store.h"

namespace atolld {

struct MoveOrder {
  std::string run_id;  // the run that is meant; empty: whichever the source holds
  std::string move;    // a name that no other move has
  absl::Time now;
  // What is being done, and how much of it: headers. `total` is 0 where it is not counted.
  std::function<void(absl::string_view doing, uint64_t done, uint64_t total)> on_progress;
};

struct MoveReport {
  std::string run_id;
  uint64_t version = 0;
  uint64_t headers = 0;
  uint64_t rows = 0;   // with the headers
  uint64_t bytes = 0;  // of their values
};

// NOT_FOUND: the source holds no run. ALREADY_EXISTS: the target holds one, other than the same run
// of before that was moved away from there. FAILED_PRECONDITION: it is another run than the one
// that is meant, or a mark stands against it. DATA_LOSS: the source's history is broken, or the
// copy is not what was copied. Else as the stores'.
absl::StatusOr<MoveReport> MoveRun(TableStore& from, TableStore& to, const MoveOrder& order);

// Takes the mark from a store. From one whose run has moved, so that a coordinator works with what
// it held then; from one whose copy is not whole, together with that copy. The mark that was there.
// FAILED_PRECONDITION: there is none.
absl::StatusOr<v1::StoreMark> UndoMove(TableStore& store);

}  // namespace atolld
