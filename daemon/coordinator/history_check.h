// The check of a store's history: at a coordinator's start from the checkpoint on, and whole where
// the checkpoint does not fit, or where an operator asks for it.
//
// Headers are read and checked a page at a time: memory does not grow with the history, but for the
// 32 bytes a header of HistorySummary. Blocking; the store is used by nobody else.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/coordinator/store.h"
#include "membership/run/run_output.h"

namespace atolld {

struct HistoryCheck {
  uint64_t headers = 0;  // that were read and checked
  // Why the stored checkpoint is not believed; then all headers were checked. Empty: it fits, or
  // there is none.
  std::string unfit;
  // To be stored, proof excluded: what was checked here has grown beyond the stored checkpoint.
  std::optional<HistoryCheckpoint> renewal;
  Digest renewal_digest = {};  // that its proof is over
};

enum class HistoryExtent { kSinceCheckpoint, kWhole };

// Checks what `run`, as the store has loaded it, says of its history, and fills in run->headers:
// those after run->checkpoint, a few. The checkpoint is moved on, or dropped, accordingly.
// DATA_LOSS: the headers are no valid chain from the genesis (or from the checkpoint) on, a header
// is missing outside run->gaps, or the seal does not close the chain.
absl::StatusOr<HistoryCheck> CheckHistory(Store& store, HistoryExtent extent, StoredRun* run);

}  // namespace atolld
