#include "worker/training/adamw_optimizer.h"

#include <cmath>

#include "worker/base/manifest.h"
#include "worker/training/adamw.h"

namespace atolld {

AdamW::AdamW(const v1::InnerSpec& inner, const v1::Manifest& manifest, const at::Device& device)
    : inner_(inner),
      manifest_(manifest),
      first_(manifest.elements(), device),
      second_(manifest.elements(), device) {}

double AdamW::Step(double learning_rate, const at::Tensor& parameters, const at::Tensor& gradient) {
  const at::NoGradGuard no_grad;
  const double norm = GlobalNorm(gradient);
  if (!std::isfinite(norm)) return norm;
  ++steps_;
  const float clip = ClipFactor(norm, inner_.gradient_clip());
  for (const v1::Tensor& tensor : manifest_.tensors()) {
    const auto of = [&](const at::Tensor& flat) {
      return flat.narrow(0, static_cast<int64_t>(tensor.offset()),
                         static_cast<int64_t>(TensorElements(tensor)));
    };
    StepPart({tensor, learning_rate, clip, of(parameters), of(gradient), of(first_.there()),
              of(second_.there())});
  }
  return norm;
}

void AdamW::StepPart(const Part& part) {
  const AdamWStep step(inner_, part.learning_rate, steps_, part.clip,
                       part.tensor.shape_size() >= 2);
  UpdateRange(step, 0, part.parameters.numel(), part.parameters, part.gradient, part.first,
              part.second);
}

void AdamW::FetchState() {
  first_.Fetch();
  second_.Fetch();
}

void AdamW::PushState() {
  first_.Push();
  second_.Push();
}

}  // namespace atolld
