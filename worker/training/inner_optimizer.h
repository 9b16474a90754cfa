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

#include "absl/status/status.h"
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
  // below. "sgd": theta -= rate * gradient and nothing else. All scale the
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

// The L2 norm of a flat fp32 vector, accumulated in double; and what scales a gradient of that norm
// down to `limit`, as torch.nn.utils.clip_grad_norm_ does (0: 1). May throw what libtorch throws.
double GlobalNorm(const at::Tensor& values);
float ClipFactor(double norm, double limit);

// Muon: momentum for matrices whose step is made orthogonal before it is taken (Jordan et al.,
// 2024, https://kellerjordan.github.io/posts/muon).
//
// Every singular value of the step comes near 1, by five steps of a Newton-Schulz iteration with
// the published coefficients 3.4445, -4.7750, 2.0315. Of the two published scales this is 0.2 *
// sqrt(max(rows, columns)) (Liu et al., "Muon is scalable for LLM training", arXiv:2502.16982),
// with which a step is as long as one of AdamW, so that one learning rate and one weight decay
// serve both. Computed in fp32.

// Whether Muon steps this tensor: a matrix of a block, which is what has a number in its name
// ("h.0.mlp.c_fc.weight"). Embeddings, head and norms are AdamW's.
bool IsMuons(const v1::Tensor& tensor);

// The matrix U V^T of `matrix` = U S V^T, about: singular values end between 0.7 and 1.2.
at::Tensor Orthogonalised(const at::Tensor& matrix);

}  // namespace atolld
