#include "worker/model/dropout.h"

namespace atolld {

at::Tensor Drop(const at::Tensor& x, double dropout, const at::Generator& generator) {
  if (dropout <= 0) return x;
  if (!generator.defined()) return at::dropout(x, dropout, /*train=*/true);
  return x * at::empty_like(x.detach()).bernoulli_(1 - dropout, generator).div_(1 - dropout);
}

}  // namespace atolld
