// The optimiser of the inner loop, over the flat parameter vector: AdamW, Muon or plain SGD.
//
// Its state belongs to one peer and is kept across rounds; it is never part of a replica. One
// thread at a time; a step spreads over libtorch's threads. Step, FetchState and PushState may
// throw libtorch's exceptions.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "atoll/v1/run.pb.h"

namespace at {
class Tensor;
}

namespace atolld {

class InnerOptimizer {
 public:
  virtual ~InnerOptimizer() = default;

  // "adamw": worker/training/adamw.h, decaying only tensors of two or more dimensions. "muon":
  // worker/training/muon.h. "sgd": theta -= rate * gradient and nothing else. All scale the
  // gradient down to the global L2 norm `gradient_clip` first (0: off). `device` is libtorch's name
  // of it. INVALID_ARGUMENT: a value of `inner` is out of range.
  static absl::StatusOr<std::unique_ptr<InnerOptimizer>> Make(const v1::InnerSpec& inner,
                                                              const v1::Manifest& manifest,
                                                              const std::string& device = "cpu");

  // One step in place; returns the gradient's norm before clipping. If that is not finite nothing
  // was changed. Both are flat fp32 vectors of manifest.elements() values on the device.
  virtual double Step(double learning_rate, const at::Tensor& parameters,
                      const at::Tensor& gradient) = 0;

  // What must be saved to go on as if never stopped. The spans live as long as the optimiser and
  // may be written.
  struct State {
    uint64_t* steps;                         // done so far
    std::vector<absl::Span<float>> buffers;  // each of manifest.elements() values; none for SGD
  };
  virtual State state() = 0;

  // Where the device is not the CPU: brings the state to state(), and back. Else nothing.
  virtual void FetchState() {}
  virtual void PushState() {}
};

// The L2 norm of a flat fp32 vector, accumulated in double.
double GlobalNorm(const at::Tensor& values);

// What scales a gradient of this norm down to `limit`, as torch.nn.utils.clip_grad_norm_; 0: none.
float ClipFactor(double norm, double limit);

}  // namespace atolld
