#include "worker/trainer.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/hub/parameters_file.h"
#include "worker/model/model.h"
#include "worker/sample_order.h"
#include "worker/schedule.h"
#include "worker/status_macros.h"
#include "worker/torch_edge.h"

namespace atolld {
namespace {

// Windows evaluated at once: enough to fill the matrix products, little enough that the logits stay
// small.
constexpr uint64_t kEvaluationTokens = 4096;

class ModelTrainer final : public Trainer {
 public:
  ModelTrainer(const v1::RunSpec& spec, std::unique_ptr<Model> model, const Corpus& corpus,
               SampleOrder order, std::unique_ptr<InnerOptimizer> optimizer)
      : spec_(spec),
        model_(std::move(model)),
        manifest_(model_->manifest()),
        corpus_(corpus),
        order_(order),
        shape_(absl::StrCat(manifest_.elements(), " parameters in ", manifest_.tensors_size(),
                            " tensors")),
        optimizer_(std::move(optimizer)) {}

  absl::Status Allocate() {
    return CatchTorch(absl::StrCat("allocating parameters and gradient, ", shape_), [&] {
      flat_ = at::zeros({static_cast<int64_t>(manifest_.elements())});
      gradient_ = at::zeros_like(flat_);
      bound_ = model_->BindTrainable(flat_, gradient_);
    });
  }

  const v1::Manifest& manifest() const override { return manifest_; }
  absl::Span<float> parameters() override {
    return absl::MakeSpan(flat_.data_ptr<float>(), manifest_.elements());
  }
  absl::Span<const float> gradient() const override {
    return absl::MakeConstSpan(gradient_.data_ptr<float>(), manifest_.elements());
  }
  InnerOptimizer& optimizer() override { return *optimizer_; }

  absl::Status Initialise() override {
    if (spec_.model().from_file()) return Load(spec_.model().initial_path());
    return CatchTorch(absl::StrCat("initial parameters, ", shape_),
                      [&] { model_->Initialise(flat_, spec_.seed()); });
  }

  absl::StatusOr<double> Step(uint64_t step, absl::Span<const uint64_t> samples) override {
    if (samples.empty())
      return absl::InvalidArgumentError(absl::StrCat("step ", step, ": no samples"));
    const double dropout = spec_.model().dropout();
    double loss = 0;
    RETURN_IF_ERROR(CatchTorch(StepContext(step, samples.size()), [&] {
      // Dropout differs by step and by peer, yet the same lease gives the same masks.
      if (dropout > 0) at::manual_seed(spec_.seed() + step * 0x9e3779b97f4a7c15u + samples[0]);
      std::vector<uint64_t> starts;
      for (const uint64_t sample : samples) starts.push_back(order_.FirstToken(sample));
      const at::Tensor batch = Gather(corpus_.train(), starts);
      const int64_t context = spec_.model().context();
      gradient_.zero_();
      const at::Tensor mean =
          model_->Loss(bound_, batch.narrow(1, 0, context), batch.narrow(1, 1, context), dropout);
      mean.backward();
      loss = static_cast<double>(mean.item<float>());
    }));
    if (!std::isfinite(loss)) {
      return absl::FailedPreconditionError(absl::StrCat("step ", step, ": the loss is ", loss));
    }
    const double norm =
        optimizer_->Step(LearningRate(spec_.inner(), step), parameters(), gradient());
    if (!std::isfinite(norm)) {
      return absl::FailedPreconditionError(absl::StrCat("step ", step, ": the gradient's norm is ",
                                                        norm, " (the loss is ", loss, ")"));
    }
    return loss;
  }

  absl::StatusOr<EvaluationSum> Evaluate(absl::Span<const float> theta, uint32_t share,
                                         uint32_t shares,
                                         const std::function<bool()>& stop) override {
    if (shares == 0 || share >= shares || theta.size() != manifest_.elements()) {
      return absl::InvalidArgumentError(absl::StrCat("evaluate share ", share, " of ", shares,
                                                     " on ", theta.size(),
                                                     " parameters; the model has ", shape_));
    }
    const uint64_t context = spec_.model().context();
    const uint64_t windows = EvaluationWindows();
    const uint64_t batch = std::max<uint64_t>(1, kEvaluationTokens / context);
    const uint64_t end = windows * (share + uint64_t{1}) / shares;
    EvaluationSum sum;
    for (uint64_t first = windows * share / shares; first < end; first += batch) {
      if (stop && stop()) return absl::CancelledError("the evaluation was stopped");
      const uint64_t count = std::min(batch, end - first);
      RETURN_IF_ERROR(
          CatchTorch(absl::StrCat("evaluation of windows ", first, "-", first + count - 1,
                                  ", tokens [", count, ", ", context, "], ", shape_),
                     [&] { sum.loss_sum += WindowLoss(theta, first, count); }));
      sum.tokens += count * context;
    }
    return sum;
  }

 private:
  absl::Status Load(const std::string& path) {
    if (!path.empty()) return LoadParameters(path, manifest_, parameters());
    return absl::FailedPreconditionError(
        "the run begins with a model from a file, and this machine is to read it; name the file as "
        "[model] initial");
  }

  std::string StepContext(uint64_t step, size_t batch) const {
    return absl::StrCat("step ", step, ", tokens [", batch, ", ", spec_.model().context(), "], ",
                        shape_);
  }

  uint64_t EvaluationWindows() const {
    const uint64_t context = spec_.model().context();
    const uint64_t available = corpus_.validation().size();
    const uint64_t all = available == 0 ? 0 : (available - 1) / context;  // each needs a next token
    if (spec_.evaluation().tokens() == 0) return all;
    return std::min(all, std::max<uint64_t>(1, spec_.evaluation().tokens() / context));
  }

  // Rows of context + 1 tokens that start at `starts`.
  at::Tensor Gather(absl::Span<const uint8_t> split, absl::Span<const uint64_t> starts) const {
    const size_t length = size_t{spec_.model().context()} + 1;
    at::Tensor rows =
        at::empty({static_cast<int64_t>(starts.size()), static_cast<int64_t>(length)}, at::kLong);
    int64_t* out = rows.data_ptr<int64_t>();
    for (const uint64_t start : starts) {
      const auto window = split.subspan(start, length);
      out = std::copy(window.begin(), window.end(), out);
    }
    return rows;
  }

  double WindowLoss(absl::Span<const float> theta, uint64_t first, uint64_t count) const {
    const at::NoGradGuard no_grad;
    const int64_t context = spec_.model().context();
    // from_blob takes a plain pointer; nothing below writes through it.
    const at::Tensor flat = at::from_blob(const_cast<float*>(theta.data()),
                                          {static_cast<int64_t>(theta.size())}, at::kFloat);
    std::vector<uint64_t> starts;
    for (uint64_t i = 0; i < count; ++i) starts.push_back((first + i) * spec_.model().context());
    const at::Tensor rows = Gather(corpus_.validation(), starts);
    const at::Tensor mean = model_->Loss(model_->Bind(flat), rows.narrow(1, 0, context),
                                         rows.narrow(1, 1, context), /*dropout=*/0);
    return static_cast<double>(mean.item<float>()) * static_cast<double>(count) *
           static_cast<double>(context);
  }

  const v1::RunSpec spec_;
  const std::unique_ptr<Model> model_;
  const v1::Manifest& manifest_;
  const Corpus& corpus_;
  const SampleOrder order_;
  const std::string shape_;  // for messages
  const std::unique_ptr<InnerOptimizer> optimizer_;
  at::Tensor flat_, gradient_;
  ModelParameters bound_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Trainer>> Trainer::Make(const v1::RunSpec& spec,
                                                       const Corpus& corpus) {
  ASSIGN_OR_RETURN(std::unique_ptr<Model> model, Model::Make(spec.model()));
  if (spec.model().vocabulary() < 256) {
    return absl::InvalidArgumentError(absl::StrCat(
        "model.vocabulary is ", spec.model().vocabulary(), "; text read as bytes needs 256"));
  }
  const uint64_t validation = corpus.validation().size(), context = spec.model().context();
  if (spec.data().validation_fraction() > 0 && validation < context + 1) {
    return absl::InvalidArgumentError(absl::StrCat("data: the validation split has ", validation,
                                                   " tokens; one sequence needs ", context + 1));
  }
  auto order = SampleOrder::Make(spec.seed(), corpus.train().size(), spec.model().context());
  RETURN_IF_ERROR(WithContext(order.status(), "data"));
  ASSIGN_OR_RETURN(std::unique_ptr<InnerOptimizer> optimizer,
                   InnerOptimizer::Make(spec.inner(), model->manifest()));
  auto trainer =
      std::make_unique<ModelTrainer>(spec, std::move(model), corpus, *order, std::move(optimizer));
  RETURN_IF_ERROR(trainer->Allocate());
  return std::unique_ptr<Trainer>(std::move(trainer));
}

}  // namespace atolld
