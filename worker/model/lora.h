// Adapters of low rank (Hu et al. 2021) beside the matrices of a frozen model of any kind.
//
//   W x  becomes  (W + alpha / rank B A) x,     A [rank, in], B [out, rank]
//
// Only A and B are parameters, so only they are trained, exchanged and logged. The base is read
// once, from a file of this machine that the run knows by its SHA-256.
#pragma once

#include <memory>
#include <vector>

#include "worker/model/model.h"

namespace atolld {

class Lora final : public Model {
 public:
  // FAILED_PRECONDITION: the file at model.base_path() is not the run's base.
  static absl::StatusOr<std::unique_ptr<Model>> Make(const v1::ModelSpec& model);

  // A uniform within 1 / sqrt(in) as PEFT draws it, B 0: the adapted model begins as the base.
  void Initialise(const at::Tensor& flat, uint64_t seed) const override;
  std::unique_ptr<Model> CopyTo(const at::Device& device,
                                const at::Generator& generator) const override;
  at::Tensor Logits(const ModelParameters& parameters, const at::Tensor& tokens,
                    double dropout) const override;

 private:
  Lora(v1::Manifest manifest, std::unique_ptr<Model> base, double scale);

  const std::unique_ptr<Model> base_;
  const double scale_;
  // Since Make or CopyTo: the base's parameters, and by place in its manifest which of ours are its
  // adapter's; -1: it has none.
  at::Tensor flat_;
  ModelParameters frozen_;
  std::vector<int> adapter_of_;
};

}  // namespace atolld
