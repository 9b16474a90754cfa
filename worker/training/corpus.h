// One party's data as a trainer sees it: the number of samples in a pass, and the amount of
// held-out data.
//
// A corpus belongs to one kind of trainer; no other kind can read it. Immutable. May be used from
// any thread.
#pragma once

#include <cstdint>

namespace atolld {

class Corpus {
 public:
  virtual ~Corpus() = default;

  // Returns the number of samples (token sequences or rows) in a pass; at least 1.
  virtual uint64_t samples() const = 0;

  // Returns how many targets of a sample count in the loss: some tokens of a sequence, or 1 for a
  // row.
  virtual uint64_t TargetsOf(uint64_t sample) const = 0;

  virtual uint64_t train_tokens() const = 0;
  virtual uint64_t validation_tokens() const = 0;
};

}  // namespace atolld
