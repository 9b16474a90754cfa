#include "worker/trainer.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/data/sample_mixture.h"
#include "worker/flat_buffer.h"
#include "worker/hub/parameters_file.h"
#include "worker/model/model.h"
#include "worker/schedule.h"
#include "worker/status_macros.h"
#include "worker/torch_edge.h"
#include "worker/torch_version.h"

namespace atolld {
namespace {

// Windows evaluated at once: enough to fill the matrix products, little enough that the logits stay
// small.
constexpr uint64_t kEvaluationTokens = 4096;

class ModelTrainer final : public Trainer {
 public:
  ModelTrainer(const v1::RunSpec& spec, std::unique_ptr<Model> model, const TrainingData& data,
               SampleMixture order, const std::string& device)
      : spec_(spec),
        model_(std::move(model)),
        manifest_(model_->manifest()),
        data_(data),
        order_(std::move(order)),
        shape_(absl::StrCat(manifest_.elements(), " parameters in ", manifest_.tensors_size(),
                            " tensors")),
        device_(device) {}

  absl::Status Allocate() {
    absl::Status made;
    RETURN_IF_ERROR(CatchTorch(absl::StrCat("allocating parameters, gradient and optimiser on ",
                                            device_.str(), ", ", shape_),
                               [&] {
                                 model_->MoveTo(device_);
                                 flat_ = FlatBuffer(manifest_.elements(), device_);
                                 gradient_ = at::zeros_like(flat_.there());
                                 bound_ = model_->BindTrainable(flat_.there(), gradient_);
                                 auto optimizer =
                                     InnerOptimizer::Make(spec_.inner(), manifest_, device_.str());
                                 made = optimizer.status();
                                 if (made.ok()) optimizer_ = *std::move(optimizer);
                               }));
    return made;
  }

  const v1::Manifest& manifest() const override { return manifest_; }
  absl::Span<float> parameters() override { return flat_.values(); }
  absl::Status FetchParameters() override {
    return CatchTorch(Transfer("parameters", "from"), [&] { flat_.Fetch(); });
  }
  absl::Status PushParameters() override {
    return CatchTorch(Transfer("parameters", "to"), [&] { flat_.Push(); });
  }
  absl::Status FetchState() override {
    return CatchTorch(Transfer("the optimiser's state", "from"), [&] { optimizer_->FetchState(); });
  }
  absl::Status PushState() override {
    return CatchTorch(Transfer("the optimiser's state", "to"), [&] { optimizer_->PushState(); });
  }
  absl::Span<const float> gradient() const override {
    if (!gradient_.is_cpu()) return {};
    return absl::MakeConstSpan(gradient_.data_ptr<float>(), manifest_.elements());
  }
  InnerOptimizer& optimizer() override { return *optimizer_; }
  double Epochs(uint64_t samples) const override { return order_.Epochs(samples); }

  absl::Status Initialise() override {
    if (spec_.model().from_file()) {
      RETURN_IF_ERROR(Load(spec_.model().initial_path()));
      return PushParameters();
    }
    return CatchTorch(absl::StrCat("initial parameters, ", shape_), [&] {
      model_->Initialise(flat_.here(), spec_.seed());  // the same numbers whatever the device
      flat_.Push();
    });
  }

  absl::StatusOr<double> Step(uint64_t step, absl::Span<const uint64_t> samples) override {
    if (samples.empty())
      return absl::InvalidArgumentError(absl::StrCat("step ", step, ": no samples"));
    double loss = 0, norm = 0;
    RETURN_IF_ERROR(CatchTorch(StepContext(step, samples.size()), [&] {
      loss = LossAndGradient(step, samples);
      if (std::isfinite(loss)) {
        norm = optimizer_->Step(LearningRate(spec_.inner(), step), flat_.there(), gradient_);
      }
    }));
    if (!std::isfinite(loss)) {
      return absl::FailedPreconditionError(absl::StrCat("step ", step, ": the loss is ", loss));
    }
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
    if (!path.empty()) {
      return WithContext(LoadParameters(path, manifest_, parameters()), "initial");
    }
    return absl::FailedPreconditionError(
        "the run begins with a model from a file, and this machine is to read it; name the file as "
        "[model] initial");
  }
  // context + 1 tokens from `first` on.
  struct Row {
    const TokenSpan* split;
    uint64_t first;
  };

  std::string Transfer(absl::string_view what, absl::string_view direction) const {
    return absl::StrCat("copying ", what, " ", direction, " ", device_.str(), ", ", shape_);
  }

  double LossAndGradient(uint64_t step, absl::Span<const uint64_t> samples) {
    const double dropout = spec_.model().dropout();
    // Dropout differs by step and by peer, yet the same lease gives the same masks.
    if (dropout > 0) at::manual_seed(spec_.seed() + step * 0x9e3779b97f4a7c15u + samples[0]);
    std::vector<Row> places;
    for (const uint64_t sample : samples) {
      const SampleMixture::Place place = order_.Of(sample);
      places.push_back({&data_.source(place.source).train(), place.first_token});
    }
    const at::Tensor batch = Gather(places);
    const int64_t context = spec_.model().context(), size = batch.size(0);
    const int64_t parts =
        std::clamp<int64_t>(static_cast<int64_t>(spec_.inner().accumulation()), 1, size);
    gradient_.zero_();
    double loss = 0;
    for (int64_t part = 0; part < parts; ++part) {
      const int64_t first = size * part / parts, count = size * (part + 1) / parts - first;
      const at::Tensor rows = batch.narrow(0, first, count);
      const double share = static_cast<double>(count) / static_cast<double>(size);
      at::Tensor mean;
      {
        const Autocast autocast(device_.type(), spec_.inner().precision() == "bf16");
        mean =
            model_->Loss(bound_, rows.narrow(1, 0, context), rows.narrow(1, 1, context), dropout);
      }
      // One part alone is left as it is, so that its gradient has no rounding of its own.
      (parts == 1 ? mean : mean * share).backward();
      loss += share * static_cast<double>(mean.item<float>());
    }
    return loss;
  }

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
    return tokens.to(device_);
  }

  double WindowLoss(absl::Span<const float> theta, uint64_t first, uint64_t count) const {
    const at::NoGradGuard no_grad;
    const int64_t context = spec_.model().context();
    // from_blob takes a plain pointer; nothing below writes through it.
    const at::Tensor flat = at::from_blob(const_cast<float*>(theta.data()),
                                          {static_cast<int64_t>(theta.size())}, at::kFloat)
                                .to(device_);
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
  const at::Device device_;
  std::unique_ptr<InnerOptimizer> optimizer_;
  FlatBuffer flat_;
  at::Tensor gradient_;
  ModelParameters bound_;
};

// A worker that is older than the run says so, instead of training otherwise.
absl::Status CheckNames(const v1::InnerSpec& inner) {
  const auto unknown = [](absl::string_view key, absl::string_view name, absl::string_view known) {
    return absl::InvalidArgumentError(
        absl::StrCat("inner.", key, " \"", name, "\" is not known; known: ", known));
  };
  const std::string &precision = inner.precision(), &schedule = inner.schedule();
  if (!precision.empty() && precision != "fp32" && precision != "bf16") {
    return unknown("precision", precision, "fp32, bf16");
  }
  if (!schedule.empty() && schedule != "cosine" && schedule != "wsd" && schedule != "constant") {
    return unknown("schedule", schedule, "cosine, wsd, constant");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Trainer>> Trainer::Make(const v1::RunSpec& spec,
                                                       const TrainingData& data,
                                                       const std::string& device) {
  RETURN_IF_ERROR(CheckNames(spec.inner()));
  ASSIGN_OR_RETURN(std::unique_ptr<Model> model,
                   Model::Make(spec.model(), spec.inner().checkpointing()));
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
  std::unique_ptr<ModelTrainer> trainer;
  RETURN_IF_ERROR(CatchTorch("making the trainer", [&] {
    trainer =
        std::make_unique<ModelTrainer>(spec, std::move(model), data, *std::move(order), device);
  }));
  RETURN_IF_ERROR(trainer->Allocate());
  return std::unique_ptr<Trainer>(std::move(trainer));
}

}  // namespace atolld
