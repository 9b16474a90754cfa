// A flat fp32 vector where the model is computed, and as the CPU reads and writes it.
//
// On a CPU both are the same memory and copying does nothing; beside a GPU the CPU's is pinned, and
// each copy is one transfer. May throw libtorch's exceptions.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>

#include "absl/types/span.h"

namespace atolld {

class FlatBuffer {
 public:
  FlatBuffer() = default;
  FlatBuffer(uint64_t elements, const at::Device& device)
      : there_(at::zeros({static_cast<int64_t>(elements)}, at::device(device).dtype(at::kFloat))),
        here_(device.is_cpu()
                  ? there_
                  : at::zeros({static_cast<int64_t>(elements)},
                              at::device(at::kCPU).dtype(at::kFloat).pinned_memory(true))) {}

  const at::Tensor& there() const { return there_; }
  const at::Tensor& here() const { return here_; }
  absl::Span<float> values() const {
    return absl::MakeSpan(here_.data_ptr<float>(), static_cast<size_t>(here_.numel()));
  }

  void Fetch() {
    if (!here_.is_same(there_)) here_.copy_(there_);
  }
  void Push() {
    if (!here_.is_same(there_)) there_.copy_(here_);
  }

 private:
  at::Tensor there_, here_;
};

}  // namespace atolld
