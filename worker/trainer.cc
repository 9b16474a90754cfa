#include "worker/trainer.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/data/sample_mixture.h"
#include "worker/hub/parameters_file.h"
#include "worker/model/model.h"
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
  ModelTrainer(const v1::RunSpec& spec, std::unique_ptr<Model> model, const TrainingData& data,
               SampleMixture order, std::unique_ptr<InnerOptimizer> optimizer)
      : spec_(spec),
        model_(std::move(model)),
        manifest_(model_->manifest()),
        data_(data),
        order_(std::move(order)),
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
  double Epochs(uint64_t samples) const override { return order_.Epochs(samples); }

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
      std::vector<Row> rows;
      for (const uint64_t sample : samples) {
        const SampleMixture::Place place = order_.Of(sample);
        rows.push_back({&data_.source(place.source).train(), place.first_token});
      }
      const at::Tensor batch = Gather(rows);
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
  // context + 1 tokens from `first` on.
  struct Row {
    const TokenSpan* split;
    uint64_t first;
  };

  std::string StepContext(uint64_t step, size_t batch) const {
    return absl::StrCat("step ", step, ", tokens [", batch, ", ", spec_.model().context(), "], ",
                        shape_);
  }

  // Of one source's validation split; each needs a next token.
  uint64_t WindowsOf(size_t source) const {
    const uint64_t available = data_.source(source).validation().size();
    return available == 0 ? 0 : (available - 1) / spec_.model().context();
  }

  uint64_t AllWindows() const {
    uint64_t all = 0;
    for (size_t i = 0; i < data_.sources(); ++i) all += WindowsOf(i);
    return all;
  }

  uint64_t EvaluationWindows() const {
    const uint64_t all = AllWindows();
    if (spec_.evaluation().tokens() == 0) return all;
    return std::min(all,
                    std::max<uint64_t>(1, spec_.evaluation().tokens() / spec_.model().context()));
  }

  // Evaluation window `index`: the first of each source, as many as its share of all windows.
  Row EvaluationRow(uint64_t index) const {
    const uint64_t all = AllWindows(), evaluated = EvaluationWindows();
    uint64_t before = 0;
    for (size_t i = 0;; ++i) {
      const uint64_t end = before + WindowsOf(i);
      const uint64_t first = Part(evaluated, before, all), past = Part(evaluated, end, all);
      if (index < past || i + 1 == data_.sources()) {
        return {&data_.source(i).validation(), (index - first) * spec_.model().context()};
      }
      before = end;
    }
  }

  // Of `evaluated` windows those that fall to the first `some` of `all`.
  static uint64_t Part(uint64_t evaluated, uint64_t some, uint64_t all) {
    return some == all
               ? evaluated
               : static_cast<uint64_t>(static_cast<double>(evaluated) * static_cast<double>(some) /
                                       static_cast<double>(all));
  }

  at::Tensor Gather(absl::Span<const Row> rows) const {
    const size_t length = size_t{spec_.model().context()} + 1;
    at::Tensor tokens =
        at::empty({static_cast<int64_t>(rows.size()), static_cast<int64_t>(length)}, at::kLong);
    int64_t* out = tokens.data_ptr<int64_t>();
    for (const Row& row : rows) {
      row.split->Read(row.first, absl::MakeSpan(out, length));
      out += length;
    }
    return tokens;
  }

  double WindowLoss(absl::Span<const float> theta, uint64_t first, uint64_t count) const {
    const at::NoGradGuard no_grad;
    const int64_t context = spec_.model().context();
    // from_blob takes a plain pointer; nothing below writes through it.
    const at::Tensor flat = at::from_blob(const_cast<float*>(theta.data()),
                                          {static_cast<int64_t>(theta.size())}, at::kFloat);
    std::vector<Row> windows;
    for (uint64_t i = 0; i < count; ++i) windows.push_back(EvaluationRow(first + i));
    const at::Tensor rows = Gather(windows);
    const at::Tensor mean = model_->Loss(model_->Bind(flat), rows.narrow(1, 0, context),
                                         rows.narrow(1, 1, context), /*dropout=*/0);
    return static_cast<double>(mean.item<float>()) * static_cast<double>(count) *
           static_cast<double>(context);
  }

  const v1::RunSpec spec_;
  const std::unique_ptr<Model> model_;
  const v1::Manifest& manifest_;
  const TrainingData& data_;
  const SampleMixture order_;
  const std::string shape_;  // for messages
  const std::unique_ptr<InnerOptimizer> optimizer_;
  at::Tensor flat_, gradient_;
  ModelParameters bound_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Trainer>> Trainer::Make(const v1::RunSpec& spec,
                                                       const TrainingData& data) {
  ASSIGN_OR_RETURN(std::unique_ptr<Model> model, Model::Make(spec.model()));
  const Tokenizer* tokenizer = data.tokenizer();
  if (tokenizer != nullptr && spec.model().vocabulary() < tokenizer->vocabulary()) {
    return absl::InvalidArgumentError(
        absl::StrCat("model.vocabulary is ", spec.model().vocabulary(), "; tokenizer \"",
                     tokenizer->kind(), "\" needs ", tokenizer->vocabulary()));
  }
  const uint64_t validation = data.validation_tokens(), context = spec.model().context();
  if (spec.data().validation_fraction() > 0 && validation < context + 1) {
    return absl::InvalidArgumentError(absl::StrCat("data: the validation split has ", validation,
                                                   " tokens; one sequence needs ", context + 1));
  }
  auto order =
      SampleMixture::Make(spec.seed(), data.TrainTokens(), data.weights(), spec.model().context());
  RETURN_IF_ERROR(WithContext(order.status(), "data"));
  ASSIGN_OR_RETURN(std::unique_ptr<InnerOptimizer> optimizer,
                   InnerOptimizer::Make(spec.inner(), model->manifest()));
  auto trainer = std::make_unique<ModelTrainer>(spec, std::move(model), data, *std::move(order),
                                                std::move(optimizer));
  RETURN_IF_ERROR(trainer->Allocate());
  return std::unique_ptr<Trainer>(std::move(trainer));
}

}  // namespace atolld
