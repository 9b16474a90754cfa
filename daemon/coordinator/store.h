// Store: what the coordinator remembers over its own death.
//
// Law: once Apply has returned OK the update is durable, all of it; if it fails nothing of it is.
// Blocking: called from the pool, one call at a time (Load before the loop runs).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "membership/run/record.h"

namespace atolld {

class Store {
 public:
  virtual ~Store() = default;

  // All that was stored; a new store gives a StoredRun without a spec. DATA_LOSS: what is there
  // cannot be read.
  virtual absl::StatusOr<StoredRun> Load() = 0;

  // RESOURCE_EXHAUSTED: no space; the same update may be applied again later. Other errors: the
  // store is not to be trusted any longer.
  virtual absl::Status Apply(const RunUpdate& update) = 0;

  // At most `limit` headers from version `first` on, ascending.
  virtual absl::StatusOr<std::vector<v1::EntryHeader>> ReadHeaders(uint64_t first,
                                                                   uint32_t limit) = 0;

  // Where it lies, for messages.
  virtual std::string where() const = 0;
};

}  // namespace atolld
