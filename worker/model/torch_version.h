// The one place that knows which libtorch this is: Debian 12 has 1.13, Debian 13 has 2.6,
// pytorch.org newer ones.
//
// Everything else in worker/ uses only what all of them share.
#pragma once

#include <ATen/autocast_mode.h>
#include <torch/torch.h>
#include <torch/version.h>

#include <cmath>
#include <limits>

#include "worker/model/dropout.h"

namespace atolld {

inline constexpr const char* kTorchVersion = TORCH_VERSION;

// Whether matrix products are computed in bf16.
inline bool AutocastEnabled(at::DeviceType device) {
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 4)
  return at::autocast::is_autocast_enabled(device);
#else
  return device == at::kCPU ? at::autocast::is_cpu_enabled() : at::autocast::is_enabled();
#endif
}

// Matrix products in bf16, or in what their arguments are, while it lives. Parameters that were
// converted are forgotten at its end, since a step changes them.
class Autocast {
 public:
  Autocast(at::DeviceType device, bool on) : device_(device), was_(AutocastEnabled(device)) {
    Set(on);
  }
  ~Autocast() {
    Set(was_);
    at::autocast::clear_cache();
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  void Set(bool on) const {
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 4)
    at::autocast::set_autocast_enabled(device_, on);
    if (on) at::autocast::set_autocast_dtype(device_, at::kBFloat16);
#else
    if (device_ == at::kCPU) {
      at::autocast::set_cpu_enabled(on);
      if (on) at::autocast::set_autocast_cpu_dtype(at::kBFloat16);
    } else {
      at::autocast::set_enabled(on);
      if (on) at::autocast::set_autocast_gpu_dtype(at::kBFloat16);
    }
#endif
  }

  const at::DeviceType device_;
  const bool was_;
};

// Causal self-attention over q, k, v of shape [batch, heads, tokens, head width]; returns that
// shape. `dropout` is the probability of dropping an attention weight, 0 while evaluating, drawn
// from `generator` as Drop does.
inline at::Tensor CausalAttention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                  double dropout, const at::Generator& generator) {
#if TORCH_VERSION_MAJOR >= 2
  // The fused form draws from libtorch's own generator.
  if (dropout <= 0 || !generator.defined()) {
    return at::scaled_dot_product_attention(q, k, v, /*attn_mask=*/{}, dropout, /*is_causal=*/true);
  }
#endif
  // 1.13 has only a private fused form that is no faster on a CPU. The mask rides along as the
  // addend of the batched product, so that it costs no pass of its own.
  const int64_t batch = q.size(0), heads = q.size(1), tokens = q.size(2), width = q.size(3);
  const at::Tensor mask =
      at::full({tokens, tokens}, -std::numeric_limits<float>::infinity(), q.options()).triu_(1);
  const auto flat = [&](const at::Tensor& t) { return t.reshape({batch * heads, tokens, width}); };
  const at::Tensor weights =
      at::baddbmm(mask.expand({batch * heads, tokens, tokens}), flat(q), flat(k).transpose(1, 2),
                  1.0, 1.0 / std::sqrt(static_cast<double>(width)));
  return at::bmm(Drop(at::softmax(weights, -1), dropout, generator), flat(v))
      .view({batch, heads, tokens, width});
}

}  // namespace atolld
