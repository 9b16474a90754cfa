#include "worker/model/lora.h"

#include <ATen/CPUGeneratorImpl.h>

#include <cmath>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "worker/base/manifest.h"
#include "worker/hub/parameters_file.h"
#include "worker/model/torch_edge.h"

namespace atolld {
namespace {

absl::Status CheckBase(const v1::ModelSpec& model) {
  if (model.base_path().empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("this run trains adapters of a base with SHA-256 ",
                     absl::BytesToHexString(model.base_digest()),
                     "; name the base's file on this machine as [model] base, or as --base"));
  }
  const std::string wanted =
      absl::StrCat("; the run's adapters are of ", absl::BytesToHexString(model.base_digest()));
  const absl::StatusOr<std::string> digest = FileDigest(model.base_path());
  if (!digest.ok()) {
    return absl::Status(digest.status().code(),
                        absl::StrCat("base: ", digest.status().message(), wanted));
  }
  if (*digest == model.base_digest()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("base: ", model.base_path(), " has SHA-256 ",
                                                    absl::BytesToHexString(*digest), wanted));
}

}  // namespace

Lora::Lora(v1::Manifest manifest, std::unique_ptr<Model> base, double scale)
    : Model(std::move(manifest)), base_(std::move(base)), scale_(scale) {}

absl::StatusOr<std::unique_ptr<Model>> Lora::Make(const v1::ModelSpec& model) {
  ASSIGN_OR_RETURN(v1::Manifest manifest, MakeManifest(model));
  RETURN_IF_ERROR(CheckBase(model));
  v1::ModelSpec beneath = model;
  beneath.set_lora_rank(0);
  ASSIGN_OR_RETURN(std::unique_ptr<Model> base, Model::Make(beneath));
  std::unique_ptr<Lora> lora(
      new Lora(std::move(manifest), std::move(base), model.lora_alpha() / model.lora_rank()));
  const v1::Manifest& whole = lora->base_->manifest();
  RETURN_IF_ERROR(CatchTorch(absl::StrCat("base of ", whole.elements(), " parameters"), [&] {
    lora->flat_ = at::empty({static_cast<int64_t>(whole.elements())});
    lora->frozen_ = lora->base_->Bind(lora->flat_);
  }));
  RETURN_IF_ERROR(LoadParameters(model.base_path(), whole,
                                 absl::MakeSpan(lora->flat_.data_ptr<float>(), whole.elements())));
  int next = 0;
  for (const v1::Tensor& tensor : whole.tensors()) {
    const bool adapted = IsAdapted(model, tensor);
    lora->adapter_of_.push_back(adapted ? next : -1);
    if (adapted) next += 2;
  }
  return std::unique_ptr<Model>(std::move(lora));
}

void Lora::Initialise(const at::Tensor& flat, uint64_t seed) const {
  const at::NoGradGuard no_grad;
  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  const ModelParameters parameters = Bind(flat);
  for (size_t i = 0; i < parameters.size(); i += 2) {
    const double bound = 1 / std::sqrt(static_cast<double>(parameters[i].size(1)));
    parameters[i].uniform_(-bound, bound, generator);
    parameters[i + 1].zero_();
  }
}

// Dropout is the base's to draw.
std::unique_ptr<Model> Lora::CopyTo(const at::Device& device,
                                    const at::Generator& generator) const {
  std::unique_ptr<Lora> copy(new Lora(manifest(), base_->CopyTo(device, generator), scale_));
  copy->flat_ = flat_.to(device);
  copy->frozen_ = copy->base_->Bind(copy->flat_);
  copy->adapter_of_ = adapter_of_;
  return copy;
}

at::Tensor Lora::Logits(const ModelParameters& parameters, const at::Tensor& tokens,
                        double dropout) const {
  ModelParameters adapted = frozen_;
  for (size_t i = 0; i < adapted.size(); ++i) {
    if (adapter_of_[i] < 0) continue;
    const auto a = static_cast<size_t>(adapter_of_[i]);
    adapted[i] = at::addmm(adapted[i], parameters[a + 1], parameters[a], 1.0, scale_);
  }
  return base_->Logits(adapted, tokens, dropout);
}

}  // namespace atolld
