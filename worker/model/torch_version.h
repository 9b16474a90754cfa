// The one place that knows which libtorch this is: Debian 12 has 1.13, Debian 13 has 2.6,
// pytorch.org newer ones.
//
// Everything else in worker/ uses only what all of them share.
#pragma once

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <torch/version.h>

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

// The fused form of causal attention, which draws from libtorch's own generator; `seen`, bools of
// [tokens, tokens], takes the place of causality where it is defined. 1.13 has only a private one
// that is no faster on a CPU.
#if TORCH_VERSION_MAJOR >= 2
inline constexpr bool kHasFusedAttention = true;
inline at::Tensor FusedCausalAttention(const at::Tensor& q, const at::Tensor& k,
                                       const at::Tensor& v, double dropout,
                                       const at::Tensor& seen) {
  if (seen.defined()) {
    return at::scaled_dot_product_attention(q, k, v, seen, dropout, /*is_causal=*/false);
  }
  return at::scaled_dot_product_attention(q, k, v, /*attn_mask=*/{}, dropout, /*is_causal=*/true);
}
#else
inline constexpr bool kHasFusedAttention = false;
inline at::Tensor FusedCausalAttention(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                       double, const at::Tensor&) {
  return {};
}
#endif

}  // namespace atolld
