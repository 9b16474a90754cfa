// Checks the history in a store. When a coordinator starts, the check begins at the stored
// checkpoint. It covers the whole history if the checkpoint does not match the history or if an
// operator asks for it.
//
// Headers are read and checked a page at a time, so memory does not grow with the history, except
// for the 32 bytes of each header in HistorySummary. Blocks. Nothing else may use the store during
// the check.
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
  uint64_t headers = 0;  // the number of headers read and checked
  // The reason why the stored checkpoint was not trusted and all headers were checked. Empty if the
  // checkpoint matches or if there is none.
  std::string unfit;
  // The checkpoint to store, without its proof, if the check went beyond the stored checkpoint.
  std::optional<HistoryCheckpoint> renewal;
  Digest renewal_digest = {};  // the digest that the proof of `renewal` has to sign
};

enum class HistoryExtent { kSinceCheckpoint, kWhole };

// Checks what `run`, as loaded from the store, says about its history, and fills in run->headers
// with the few headers after run->checkpoint. run->checkpoint is replaced by a later one, or
// dropped if it does not match. Fails with DATA_LOSS if the headers are not a valid chain from the
// genesis or the checkpoint on, if a header is missing outside run->gaps, or if the seal does not
// close the chain.
absl::StatusOr<HistoryCheck> CheckHistory(Store& store, HistoryExtent extent, StoredRun* run);

}  // namespace atolld
