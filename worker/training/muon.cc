#include "worker/training/muon.h"

#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "worker/training/adamw_optimizer.h"

namespace atolld {
namespace {

constexpr double kA = 3.4445, kB = -4.7750, kC = 2.0315;
constexpr int kIterations = 5;
constexpr double kSmallest = 1e-7;    // a matrix of zeros stays one
constexpr double kAdamWLength = 0.2;  // root mean square of a usual step of AdamW, in its rate

class Muon final : public AdamW {
 public:
  using AdamW::AdamW;

 private:
  // Of a block's matrix the first moment is Muon's momentum, and the second is not used.
  void StepPart(const Part& part) override {
    if (!IsMuons(part.tensor)) return AdamW::StepPart(part);
    const std::array<int64_t, 2> shape = {static_cast<int64_t>(part.tensor.shape(0)),
                                          static_cast<int64_t>(part.tensor.shape(1))};
    const at::Tensor matrix = part.parameters.view(shape), momentum = part.first.view(shape);
    const double mu = inner_.muon_momentum();
    const at::Tensor g = part.gradient.view(shape) * part.clip;
    momentum.mul_(mu).add_(g);
    const at::Tensor direction = Orthogonalised(g.add(momentum, mu));  // Nesterov's
    const auto longest = static_cast<double>(std::max(shape[0], shape[1]));
    matrix.mul_(1.0 - part.learning_rate * inner_.weight_decay())
        .add_(direction, -part.learning_rate * kAdamWLength * std::sqrt(longest));
  }
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
