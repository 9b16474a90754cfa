// Moves a run from one store to another: copies and checks it, so that a coordinator can never run
// it from both stores.
//
// Law: at every instant a coordinator may work with at most one of the two stores. First the target
// is marked as arriving. Then the rows are written to the target, read back and compared, and every
// header is checked in the target. Then the source is marked as moved, and finally the target's
// mark is removed. If the move is interrupted at any instant, the same call completes it; until the
// source is marked, the run may also continue at the source. Blocks. The caller owns both stores,
// and nothing else may use them during the move.
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
  std::string run_id;  // the run to move; if empty, the run that the source holds
  std::string move;    // a unique name of this move
  absl::Time now;
  // Called with the name of the step under way and the number of headers that it has done. `total`
  // is 0 if the total is not known.
  std::function<void(absl::string_view doing, uint64_t done, uint64_t total)> on_progress;
};

struct MoveReport {
  std::string run_id;
  uint64_t version = 0;
  uint64_t headers = 0;
  uint64_t rows = 0;   // the number of rows, headers included
  uint64_t bytes = 0;  // the bytes of the rows' values
};

// Fails with NOT_FOUND if the source holds no run; with ALREADY_EXISTS if the target holds a run,
// unless that is an earlier state of the same run that was moved away from the target; with
// FAILED_PRECONDITION if the source holds a run other than order.run_id or if a mark forbids the
// move; with DATA_LOSS if the source's history is broken or the copy differs from the source. It
// also fails with the errors of the two stores.
absl::StatusOr<MoveReport> MoveRun(TableStore& from, TableStore& to, const MoveOrder& order);

// Removes the mark from a store and returns it. If the mark says that the run has moved away, a
// coordinator may then work with the state that the store held at the move. If the mark says that
// the store holds an incomplete copy, the copy is removed with the mark. Fails with
// FAILED_PRECONDITION if there is no mark.
absl::StatusOr<v1::StoreMark> UndoMove(TableStore& store);

}  // namespace atolld
