// The optimiser of the inner loop, over the flat parameter vector: AdamW, Muon or plain SGD.
//
// Its state belongs to one peer, is kept across rounds, and is never part of a replica. A tensor
// that is not trained at present has no state and takes no memory; when it is trained again, it
// begins with fresh state, and the bias correction of its moments begins with it. Used by one
// thread at a time; a step is spread over libtorch's threads. Step, FetchState and PushState may
// throw libtorch's exceptions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "atoll/v1/run.pb.h"
#include "worker/base/trained_tensors.h"

namespace at {
class Tensor;
}

namespace atolld {

class InnerOptimizer {
 public:
  virtual ~InnerOptimizer() = default;

  // Makes the optimiser that the spec names: "adamw" as in AdamWStep below, with weight
  // decay only for tensors of two or more dimensions; "muon" as described below; or "sgd", which
  // only computes theta -= rate * gradient. All of them first scale the gradient down to the global
  // L2 norm `gradient_clip` (0 switches this off). `device` is libtorch's name of the device. All
  // tensors of the manifest are trained. Fails with INVALID_ARGUMENT if a value of `inner` is out
  // of range.
  static absl::StatusOr<std::unique_ptr<InnerOptimizer>> Make(const v1::InnerSpec& inner,
                                                              const v1::Manifest& manifest,
                                                              const std::string& device = "cpu");
  // Does the same with the tensors that are trained first.
  static absl::StatusOr<std::unique_ptr<InnerOptimizer>> Make(const v1::InnerSpec& inner,
                                                              const v1::Manifest& manifest,
                                                              const std::string& device,
                                                              const TrainedTensors& trained);

  // Trains these tensors from now on. Keeps the state of those that were trained before, releases
  // that of the others, and begins with fresh state where there is none. Spans of state() are then
  // invalid. May throw libtorch's exceptions.
  virtual void Train(const TrainedTensors& trained) = 0;

  // Takes one step in place and returns the gradient's norm before clipping. If the norm is not
  // finite, the step is not taken. Both tensors are flat fp32 vectors on the device: `parameters`
  // of manifest.elements() values, `gradient` of those of the trained tensors alone.
  virtual double Step(double learning_rate, const at::Tensor& parameters,
                      const at::Tensor& gradient) = 0;

  // The state that must be saved so that training can continue as if it had never stopped. The
  // spans are valid until the next call of Train, and may be written.
  struct State {
    uint64_t* steps;  // The number of steps done so far.
    // The moments. Each buffer has the values of the trained tensors; SGD has no buffers.
    std::vector<absl::Span<float>> buffers;
    // For each tensor of the manifest, the number of steps done when its state was last fresh: 0 if
    // it has been trained all the time. kFrozen if it is not trained. Empty for SGD.
    absl::Span<uint64_t> began;
  };
  static constexpr uint64_t kFrozen = ~uint64_t{0};
  virtual State state() = 0;

  // FetchState copies the state from the device to state(), and PushState copies it back. Both do
  // nothing if the device is the CPU.
  virtual void FetchState() {}
  virtual void PushState() {}
};

// GlobalNorm returns the L2 norm of a flat fp32 vector, accumulated in double. ClipFactor returns
// the factor that scales a gradient of that norm down to `limit`, as torch.nn.utils.clip_grad_norm_
// does (1 if `limit` is 0). May throw libtorch's exceptions.
double GlobalNorm(const at::Tensor& values);
float ClipFactor(double norm, double limit);

// Muon: momentum for matrices, whose step is made orthogonal before it is taken (Jordan et al.,
// 2024, https://kellerjordan.github.io/posts/muon).
//
// Five steps of a Newton-Schulz iteration with the published coefficients 3.4445, -4.7750, 2.0315
// bring every singular value of the step near 1. Two scales have been published; this code uses 0.2
// * sqrt(max(rows, columns)) (Liu et al., "Muon is scalable for LLM training", arXiv:2502.16982).
// It makes a step about as long as a step of AdamW, so that the same learning rate and weight decay
// suit both. The iteration is computed in fp32.

// Returns true if Muon updates this tensor. Muon updates the matrices of the blocks, which have a
// number in their names ("h.0.mlp.c_fc.weight"); AdamW updates embeddings, the head and norms.
bool IsMuons(const v1::Tensor& tensor);

// Returns approximately the matrix U V^T of `matrix` = U S V^T; its singular values lie between 0.7
// and 1.2.
at::Tensor Orthogonalised(const at::Tensor& matrix);

// -----------------------------------------------------------------------------------------------

// AdamW over ranges of the flat parameter vector (Loshchilov and Hutter, arXiv:1711.05101). As in
// torch.optim.AdamW, epsilon is 1e-8 and the moments are bias-corrected.
//
// On a CPU a step is one fused pass over four arrays, bound by their memory traffic; on other
// devices it uses libtorch's operations. Used by one thread at a time; a pass is spread over
// libtorch's threads. May throw libtorch's exceptions.

// The factors of one step, the same for every value of a range.
struct AdamWStep {
  // `steps` is the number of steps of the range, including this one. `clip` is a factor by which
  // the gradient is multiplied. `decayed` is true if weight decay applies to the range.
  AdamWStep(const v1::InnerSpec& inner, double learning_rate, uint64_t steps, float clip,
            bool decayed);
  float clip, beta1, beta2, one_minus_beta1, one_minus_beta2, step_size, root_correction, keep;
};

// Updates the values [begin, end) of `parameters` and of the moments `first` and `second`. All four
// tensors are flat fp32 vectors on one device.
void UpdateRange(const AdamWStep& step, int64_t begin, int64_t end, const at::Tensor& parameters,
                 const at::Tensor& gradient, const at::Tensor& first, const at::Tensor& second);

// Does the same as UpdateRange with libtorch's operations, on any device.
void UpdateRangeByTensors(const AdamWStep& step, int64_t begin, int64_t end,
                          const at::Tensor& parameters, const at::Tensor& gradient,
                          const at::Tensor& first, const at::Tensor& second);

}  // namespace atolld
