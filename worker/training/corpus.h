// One party's data as a trainer reads it: which samples a pass has, and what is held out.
//
// A corpus is of one kind of trainer, which made it or was made with it; no other reads it.
// Immutable; any thread.
#pragma once

#include <cstdint>

namespace atolld {

class Corpus {
 public:
  virtual ~Corpus() = default;

  // Sequences, or rows, in a pass; at least 1.
  virtual uint64_t samples() const = 0;

  // Tokens of a sample that are targets and count; rows count as one.
  virtual uint64_t TargetsOf(uint64_t sample) const = 0;

  virtual uint64_t train_tokens() const = 0;
  virtual uint64_t validation_tokens() const = 0;
};

}  // namespace atolld
