// The only code that depends on the version of libtorch. Debian 12 has version 1.13, Debian 13 has
// 2.6, and wheels of PyTorch have newer versions.
//
// All other code in worker/ uses only functions that exist in all these versions.
#pragma once

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <torch/version.h>

#include <memory>
#include <type_traits>
#include <utility>

namespace atolld {

inline constexpr const char* kTorchVersion = TORCH_VERSION;

// Returns a new node of autograd's graph, to which the graph has shared pointers: std::shared_ptr
// in old versions of libtorch, and c10::intrusive_ptr in new ones.
template <typename Node, typename... Arguments>
auto MakeGraphNode(Arguments&&... arguments) {
  if constexpr (std::is_base_of_v<c10::intrusive_ptr_target, Node>) {
    return c10::make_intrusive<Node>(std::forward<Arguments>(arguments)...);
  } else {
    return std::shared_ptr<Node>(new Node(std::forward<Arguments>(arguments)...),
                                 [](Node* node) { deleteNode(node); });
  }
}

// Returns true if matrix products are computed in bf16.
inline bool AutocastEnabled(at::DeviceType device) {
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 4)
  return at::autocast::is_autocast_enabled(device);
#else
  return device == at::kCPU ? at::autocast::is_cpu_enabled() : at::autocast::is_enabled();
#endif
}

// While an Autocast exists, matrix products are computed in bf16 if `on` is true, and otherwise in
// the type of their arguments. The destructor clears the cache of converted parameters, because a
// step changes the parameters.
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

// Computes causal attention with libtorch's fused operation, whose random numbers come from
// libtorch's default generator. If `seen` is defined, it has bools of shape [tokens, tokens] that
// replace the causal mask. libtorch 1.13 has only a private version of this operation, which is not
// faster on a CPU.
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
