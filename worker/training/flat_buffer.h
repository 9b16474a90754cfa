// A flat fp32 vector on the device that computes the model, with a copy in CPU memory that the CPU
// can read and write.
//
// If the device is a CPU, both are the same memory, and Fetch and Push do nothing. If it is a GPU,
// the copy is in pinned memory, and Fetch and Push are one transfer each. May throw libtorch's
// exceptions. `there` is the vector on the device, `here` and `values` are the copy in CPU memory.
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
