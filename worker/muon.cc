#include "worker/muon.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "worker/adamw.h"
#include "worker/flat_buffer.h"
#include "worker/model/manifest.h"

namespace atolld {
namespace {

constexpr double kA = 3.4445, kB = -4.7750, kC = 2.0315;
constexpr int kIterations = 5;
constexpr double kSmallest = 1e-7;    // a matrix of zeros stays one
constexpr double kAdamWLength = 0.2;  // root mean square of a usual step of AdamW, in its rate

class Muon final : public InnerOptimizer {
 public:
  Muon(const v1::InnerSpec& inner, const v1::Manifest& manifest, const at::Device& device)
      : inner_(inner),
        manifest_(manifest),
        first_(manifest.elements(), device),
        second_(manifest.elements(), device) {}

  double Step(double learning_rate, const at::Tensor& parameters,
              const at::Tensor& gradient) override {
    const at::NoGradGuard no_grad;
    const double norm = GlobalNorm(gradient);
    if (!std::isfinite(norm)) return norm;
    ++steps_;
    const float clip = ClipFactor(norm, inner_.gradient_clip());
    for (const v1::Tensor& tensor : manifest_.tensors()) {
      const auto begin = static_cast<int64_t>(tensor.offset());
      const auto count = static_cast<int64_t>(TensorElements(tensor));
      if (!IsMuons(tensor)) {
        const AdamWStep step(inner_, learning_rate, steps_, clip, tensor.shape_size() >= 2);
        UpdateRange(step, begin, begin + count, parameters, gradient, first_.there(),
                    second_.there());
        continue;
      }
      const auto matrix = [&](const at::Tensor& flat) {
        return flat.narrow(0, begin, count)
            .view({static_cast<int64_t>(tensor.shape(0)), static_cast<int64_t>(tensor.shape(1))});
      };
      StepMatrix(learning_rate, clip, matrix(parameters), matrix(gradient), matrix(first_.there()));
    }
    return norm;
  }

  State state() override { return {&steps_, {first_.values(), second_.values()}}; }
  void FetchState() override {
    first_.Fetch();
    second_.Fetch();
  }
  void PushState() override {
    first_.Push();
    second_.Push();
  }

 private:
  void StepMatrix(double learning_rate, float clip, const at::Tensor& matrix,
                  const at::Tensor& gradient, const at::Tensor& momentum) const {
    const double mu = inner_.muon_momentum();
    const at::Tensor g = gradient * clip;
    momentum.mul_(mu).add_(g);
    const at::Tensor direction = Orthogonalised(g.add(momentum, mu));  // Nesterov's
    const auto longest = static_cast<double>(std::max(matrix.size(0), matrix.size(1)));
    matrix.mul_(1.0 - learning_rate * inner_.weight_decay())
        .add_(direction, -learning_rate * kAdamWLength * std::sqrt(longest));
  }

  const v1::InnerSpec inner_;
  const v1::Manifest manifest_;
  FlatBuffer first_;   // Muon's momentum, or AdamW's first moment
  FlatBuffer second_;  // AdamW's second moment; unused where Muon steps
  uint64_t steps_ = 0;
};

}  // namespace

bool IsMuons(const v1::Tensor& tensor) {
  if (tensor.shape_size() != 2) return false;
  for (const absl::string_view part : absl::StrSplit(tensor.name(), '.')) {
    if (!part.empty() && std::all_of(part.begin(), part.end(), absl::ascii_isdigit)) return true;
  }
  return false;
}

at::Tensor Orthogonalised(const at::Tensor& matrix) {
  const bool tall = matrix.size(0) > matrix.size(1);
  at::Tensor x = tall ? matrix.t() : matrix;  // the smaller square is the cheaper one
  x = x / (x.norm() + kSmallest);
  for (int i = 0; i < kIterations; ++i) {
    const at::Tensor square = at::mm(x, x.t());
    const at::Tensor polynomial = at::addmm(square, square, square, kB, kC);
    x = at::addmm(x, polynomial, x, kA, 1.0);
  }
  return tall ? x.t() : x;
}

std::unique_ptr<InnerOptimizer> MakeMuon(const v1::InnerSpec& inner, const v1::Manifest& manifest,
                                         const std::string& device) {
  return std::make_unique<Muon>(inner, manifest, at::Device(device));
}

}  // namespace atolld
