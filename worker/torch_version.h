// The one place that knows which libtorch this is: Debian 12 has 1.13, Debian 13 has 2.6,
// pytorch.org newer ones.
//
// Everything else in worker/ uses only what all of them share.
#pragma once

#include <torch/torch.h>
#include <torch/version.h>

#include <cmath>
#include <limits>

namespace atolld {

inline constexpr const char* kTorchVersion = TORCH_VERSION;

// Causal self-attention over q, k, v of shape [batch, heads, tokens, head width]; returns that
// shape. `dropout` is the probability of dropping an attention weight; 0 while evaluating.
inline at::Tensor CausalAttention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                  double dropout) {
#if TORCH_VERSION_MAJOR >= 2
  return at::scaled_dot_product_attention(q, k, v, /*attn_mask=*/{}, dropout, /*is_causal=*/true);
#else
  // 1.13 has only a private fused form that is no faster on a CPU. The mask rides along as the
  // addend of the batched product, so that it costs no pass of its own.
  const int64_t batch = q.size(0), heads = q.size(1), tokens = q.size(2), width = q.size(3);
  const at::Tensor mask =
      at::full({tokens, tokens}, -std::numeric_limits<float>::infinity(), q.options()).triu_(1);
  const auto flat = [&](const at::Tensor& t) { return t.reshape({batch * heads, tokens, width}); };
  at::Tensor weights =
      at::baddbmm(mask.expand({batch * heads, tokens, tokens}), flat(q), flat(k).transpose(1, 2),
                  1.0, 1.0 / std::sqrt(static_cast<double>(width)));
  weights = at::softmax(weights, -1);
  if (dropout > 0) weights = at::dropout(weights, dropout, /*train=*/true);
  return at::bmm(weights, flat(v)).view({batch, heads, tokens, width});
#endif
}

}  // namespace atolld
