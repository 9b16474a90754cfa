// The optimiser of the inner loop, over the flat parameter vector: AdamW or plain SGD.
//
// Its state belongs to one peer and is kept across rounds; it is never part of a replica. One
// thread at a time; a step spreads over libtorch's threads.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "atoll/v1/run.pb.h"

namespace atolld {

class InnerOptimizer {
 public:
  virtual ~InnerOptimizer() = default;

  // "adamw": Loshchilov and Hutter's, as torch.optim.AdamW (epsilon 1e-8, bias-corrected), decaying
  // only tensors of two or more dimensions. "sgd": theta -= rate * gradient and nothing else. Both
  // scale the gradient down to the global L2 norm `gradient_clip` first (0: off). INVALID_ARGUMENT:
  // a value of `inner` is out of range.
  static absl::StatusOr<std::unique_ptr<InnerOptimizer>> Make(const v1::InnerSpec& inner,
                                                              const v1::Manifest& manifest);

  // One step in place; returns the gradient's norm before clipping. If that is not finite nothing
  // was changed. Both spans have manifest.elements() values.
  virtual double Step(double learning_rate, absl::Span<float> parameters,
                      absl::Span<const float> gradient) = 0;

  // What must be saved to go on as if never stopped. The spans live as long as the optimiser and
  // may be written.
  struct State {
    uint64_t* steps;                         // done so far
    std::vector<absl::Span<float>> buffers;  // each of manifest.elements() values; none for SGD
  };
  virtual State state() = 0;
};

// The L2 norm, accumulated in double.
double GlobalNorm(absl::Span<const float> values);

}  // namespace atolld
