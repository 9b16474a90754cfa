// Which source, and which window of it, a sample number of the run stands for.
//
// With one source it is SampleOrder alone. With several, sample numbers run in cycles of kCycle
// slots that are dealt to the sources by weight, evenly interleaved; each source counts its own
// slots, so every one is read epoch by epoch in its own order. Any peer computes it by arithmetic
// alone. Immutable; any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "worker/data/sample_order.h"

namespace atolld {

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
