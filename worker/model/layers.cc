#include "worker/model/layers.h"

#include <ATen/CPUGeneratorImpl.h>

#include <cmath>
#include <string>

#include "absl/strings/match.h"

namespace atolld {
namespace {

constexpr double kInitStd = 0.02;  // GPT-2's

bool EndsInResidual(const std::string& name) {
  return absl::EndsWith(name, "c_proj.weight") || absl::EndsWith(name, "o_proj.weight") ||
         absl::EndsWith(name, "down_proj.weight");
}

}  // namespace

void InitialiseLayers(const v1::Manifest& manifest, uint32_t layers,
                      const ModelParameters& parameters, uint64_t seed) {
  const at::NoGradGuard no_grad;
  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  for (int i = 0; i < manifest.tensors_size(); ++i) {
    const std::string& name = manifest.tensors(i).name();
    const at::Tensor& values = parameters[static_cast<size_t>(i)];
    if (values.dim() == 1) {
      values.fill_(absl::EndsWith(name, ".bias") ? 0.0 : 1.0);
      continue;
    }
    values.normal_(0.0, EndsInResidual(name) ? kInitStd / std::sqrt(2.0 * layers) : kInitStd,
                   generator);
  }
}

}  // namespace atolld
