// Which source, and which window of it, a sample number of the run stands for.
//
// Sample numbers are leased to peers; each is one sequence, and any peer computes which by
// arithmetic alone. Immutable; any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace atolld {

// Of one source. Epoch e is the samples [e * windows, (e + 1) * windows); inside it a keyed
// permutation of the windows, so that each is used once, in an order that differs by epoch and by
// the run's seed. Windows start `context` tokens apart and hold context + 1 (the last is only ever
// a target); where the first one starts moves with the epoch, so that sequences are not cut at the
// same places each time.
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

// The pass with which a party begins a round, where nothing is kept of the rounds before: one of
// 2^32, drawn by the run's seed, the party and the version.
uint64_t PassOf(uint64_t seed, uint64_t party, uint64_t version);

// Of one source or several. With one it is SampleOrder alone. With several, sample numbers run in
// cycles of kCycle slots that are dealt to the sources by weight, evenly interleaved; each source
// counts its own slots, so every one is read epoch by epoch in its own order.
class SampleMixture {
 public:
  static constexpr uint64_t kCycle = 4096;

  struct Place {
    size_t source = 0;
    uint64_t first_token = 0;  // of context + 1
  };

  // `tokens` of each source's training split, and their weights: positive, of the same number.
  // INVALID_ARGUMENT names the source that is too short for one sequence.
  static absl::StatusOr<SampleMixture> Make(uint64_t seed, absl::Span<const uint64_t> tokens,
                                            absl::Span<const double> weights, uint32_t context);

  Place Of(uint64_t sample) const;

  // Of all sources: a pass over one, or as many samples as one over each would have.
  uint64_t samples() const;

  // How often the source that is read most often has been read when all samples below `samples`
  // are.
  double Epochs(uint64_t samples) const;

  // Of a cycle, those of this source: its weight as it was rounded.
  uint64_t slots(size_t source) const { return slots_[source]; }

 private:
  struct Slot {
    uint32_t source;
    uint32_t rank;  // among the slots of its source
  };

  std::vector<SampleOrder> orders_;
  std::vector<uint64_t> slots_;
  std::vector<Slot> cycle_;
};

}  // namespace atolld
