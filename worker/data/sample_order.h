// Which window of the training split a sample number of the run stands for.
//
// Sample numbers are leased to peers; each is one sequence, and any peer computes which by
// arithmetic alone. Epoch e is the samples [e * windows, (e + 1) * windows); inside it a keyed
// permutation of the windows, so that each is used once, in an order that differs by epoch and by
// the run's seed. Windows start `context` tokens apart and hold context + 1 (the last is only ever
// a target); where the first one starts moves with the epoch, so that sequences are not cut at the
// same places each time. Immutable; any thread.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"

namespace atolld {

class SampleOrder {
 public:
  // INVALID_ARGUMENT: fewer tokens than one sequence needs (context + 1).
  static absl::StatusOr<SampleOrder> Make(uint64_t seed, uint64_t tokens, uint32_t context);

  // Sequences in an epoch, >= 1.
  uint64_t windows() const { return windows_; }

  // Index of the first of the context + 1 tokens of a sample.
  uint64_t FirstToken(uint64_t sample) const;

  // The window at `position` (< windows()) of an epoch: a bijection for each epoch.
  uint64_t Window(uint64_t epoch, uint64_t position) const;

  // Where window 0 of an epoch starts.
  uint64_t Phase(uint64_t epoch) const;

 private:
  SampleOrder(uint64_t seed, uint64_t tokens, uint32_t context);

  uint64_t seed_;
  uint64_t context_;
  uint64_t windows_;
  uint64_t phases_;     // how many places window 0 can start at
  uint32_t half_bits_;  // of the Feistel network's block
};

}  // namespace atolld
