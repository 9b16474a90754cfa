// Maps a sample number of the run to a source, and to a window of that source.
//
// Sample numbers are leased to peers. Each number means one sequence, which any peer can compute by
// arithmetic alone. Immutable. May be used from any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace atolld {

// The order of the windows of one source. Epoch e consists of the samples [e * windows, (e + 1) *
// windows). Within an epoch a keyed permutation uses each window once, in an order that depends on
// the epoch and on the run's seed. Windows start `context` tokens apart and hold context + 1
// tokens, of which the last is only a target. The start of the first window changes with the epoch,
// so that sequences are not cut at the same places each time.
class SampleOrder {
 public:
  // Fails with INVALID_ARGUMENT if there are fewer tokens than one sequence needs (context + 1).
  static absl::StatusOr<SampleOrder> Make(uint64_t seed, uint64_t tokens, uint32_t context);

  // Returns the number of sequences in an epoch, at least 1.
  uint64_t windows() const { return windows_; }

  // Returns the index of the first of the context + 1 tokens of a sample.
  uint64_t FirstToken(uint64_t sample) const;

  // Returns the window at `position` of an epoch, which is below windows(). In each epoch every
  // window has exactly one position.
  uint64_t Window(uint64_t epoch, uint64_t position) const;

  // Returns the index of the token at which window 0 of an epoch starts.
  uint64_t Phase(uint64_t epoch) const;

 private:
  SampleOrder(uint64_t seed, uint64_t tokens, uint32_t context);

  uint64_t seed_;
  uint64_t context_;
  uint64_t windows_;
  uint64_t phases_;     // The number of places at which window 0 can start.
  uint32_t half_bits_;  // Half the bits of the Feistel network's block.
};

// Returns the number of the pass with which a party begins a round if its position is not kept
// between rounds. It is a number below 2^32 that is drawn from the run's seed, the party and the
// version.
uint64_t PassOf(uint64_t seed, uint64_t party, uint64_t version);

// The order of one or more sources. With one source it equals SampleOrder. With several sources,
// sample numbers are divided into cycles of kCycle slots. The slots of a cycle are assigned to the
// sources by weight and evenly interleaved. Each source counts its own slots, so that it is read
// epoch by epoch in its own order.
class SampleMixture {
 public:
  static constexpr uint64_t kCycle = 4096;

  struct Place {
    size_t source = 0;
    uint64_t first_token = 0;  // The first of context + 1 tokens.
  };

  // `tokens` has the size of each source's training split, and `weights` has a positive weight for
  // each source. Fails with INVALID_ARGUMENT if a source is too short for one sequence; the message
  // names the source.
  static absl::StatusOr<SampleMixture> Make(uint64_t seed, absl::Span<const uint64_t> tokens,
                                            absl::Span<const double> weights, uint32_t context);

  Place Of(uint64_t sample) const;

  // Returns the number of samples in one pass over each source, summed over all sources.
  uint64_t samples() const;

  // Returns how many times the source that is read most often has been read once every sample with
  // a number below `samples` has been read.
  double Epochs(uint64_t samples) const;

  // Returns the number of slots in a cycle that belong to this source.
  uint64_t slots(size_t source) const { return slots_[source]; }

 private:
  struct Slot {
    uint32_t source;
    uint32_t rank;  // The position of this slot among the slots of its source.
  };

  std::vector<SampleOrder> orders_;
  std::vector<uint64_t> slots_;
  std::vector<Slot> cycle_;
};

}  // namespace atolld
