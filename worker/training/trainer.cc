#include "worker/training/trainer.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compression/base/status_macros.h"
#include "compression/base/words.h"
#include "worker/base/schedule.h"
#include "worker/data/sample_order.h"
#include "worker/hub/safetensors.h"
#include "worker/model/architectures.h"
#include "worker/model/torch_edge.h"
#include "worker/training/flat_buffer.h"
#include "worker/training/model_copies.h"

namespace atolld {
namespace {

// Evaluated at once: enough to fill the matrix products, little enough that on a CPU the
// activations of a small model stay in the caches, and that the logits of a large one are small.
uint64_t EvaluationTokens(const at::Device& device) { return device.is_cpu() ? 1024 : 4096; }

class ModelTrainer final : public Trainer {
 public:
  ModelTrainer(const v1::RunSpec& spec, const v1::Manifest& manifest, const TrainingData& data,
               SampleMixture order, const std::vector<std::string>& devices)
      : spec_(spec),
        manifest_(manifest),
        data_(data),
        order_(std::move(order)),
        shape_(absl::StrCat(Counted(manifest_.elements(), "parameter"), " in ",
                            Counted(manifest_.tensors_size(), "tensor"))),
        copies_(devices) {}

  absl::Status Allocate(const Model& model) {
    const std::string context = absl::StrCat("allocating parameters, gradient and optimiser on ",
                                             copies_.device().str(), ", ", shape_);
    absl::Status made;
    RETURN_IF_ERROR(CatchTorch(context, [&] {
      flat_ = FlatBuffer(manifest_.elements(), copies_.device());
      auto optimizer = InnerOptimizer::Make(spec_.inner(), manifest_, copies_.device().str());
      made = optimizer.status();
      if (made.ok()) optimizer_ = *std::move(optimizer);
    }));
    RETURN_IF_ERROR(made);
    return copies_.Allocate(spec_, model, flat_.there(), context);
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
    const at::Tensor& gradient = copies_.first().gradient();
    if (!gradient.is_cpu()) return {};
    return absl::MakeConstSpan(gradient.data_ptr<float>(), manifest_.elements());
  }
  InnerOptimizer& optimizer() override { return *optimizer_; }
  double Epochs(uint64_t samples) const override { return order_.Epochs(samples); }

  absl::Status Initialise() override {
    if (spec_.model().from_file()) {
      RETURN_IF_ERROR(Load(spec_.model().initial_path()));
      return PushParameters();
    }
    return CatchTorch(absl::StrCat("initial parameters, ", shape_), [&] {
      // The same numbers whatever the device.
      copies_.first().model().Initialise(flat_.here(), spec_.seed());
      flat_.Push();
    });
  }

  absl::StatusOr<double> Step(uint64_t step, absl::Span<const uint64_t> samples) override {
    if (samples.size() < copies_.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("step ", step, ": ", Counted(samples.size(), "sample"), "; each of ",
                       Counted(copies_.size(), "device"), " needs one"));
    }
    const std::string context = StepContext(step, samples.size());
    ASSIGN_OR_RETURN(const double loss, LossAndGradient(step, samples, context));
    if (!std::isfinite(loss)) {
      return absl::FailedPreconditionError(absl::StrCat("step ", step, ": the loss is ", loss));
    }
    double norm = 0;
    RETURN_IF_ERROR(CatchTorch(context, [&] {
      copies_.SumGradients();
      norm = optimizer_->Step(LearningRate(spec_.inner(), step), flat_.there(),
                              copies_.first().gradient());
    }));
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
                                                     " on ", Counted(theta.size(), "parameter"),
                                                     "; the model has ", shape_));
    }
    const uint64_t context = spec_.model().context();
    const uint64_t windows = EvaluationWindows();
    const uint64_t batch = std::max<uint64_t>(1, EvaluationTokens(copies_.device()) / context);
    const uint64_t end = windows * (share + uint64_t{1}) / shares;
    std::vector<ModelParameters> thetas(copies_.size());
    RETURN_IF_ERROR(
        copies_.OnEach(absl::StrCat("evaluation, ", shape_),
                       [&](size_t i, const ModelCopy& copy) { thetas[i] = copy.Bind(theta); }));
    EvaluationSum sum;
    // Every copy has one batch of each turn, and all are summed in their order: the number of
    // copies changes nothing.
    for (uint64_t first = windows * share / shares; first < end; first += batch * copies_.size()) {
      if (stop && stop()) return absl::CancelledError("the evaluation was stopped");
      const uint64_t last = std::min(end, first + batch * copies_.size()) - 1;
      std::vector<double> losses(copies_.size());
      RETURN_IF_ERROR(
          copies_.OnEach(absl::StrCat("evaluation of windows ", first, "-", last, ", tokens [",
                                      batch, ", ", context, "], ", shape_),
                         [&](size_t i, const ModelCopy& copy) {
                           const uint64_t begin = std::min(end, first + i * batch);
                           const uint64_t count = std::min(batch, end - begin);
                           if (count > 0) losses[i] = WindowLoss(copy, thetas[i], begin, count);
                         }));
      for (const double loss : losses) sum.loss_sum += loss;
      sum.tokens += (last + 1 - first) * context;
    }
    return sum;
  }

 private:
  absl::Status Load(const std::string& path) {
    if (!path.empty()) {
      return Annotate(LoadParameters(path, manifest_, parameters()), "initial");
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
    return absl::StrCat("copying ", what, " ", direction, " ", copies_.device().str(), ", ",
                        shape_);
  }

  // Leaves the gradients with the copies.
  absl::StatusOr<double> LossAndGradient(uint64_t step, absl::Span<const uint64_t> samples,
                                         const std::string& context) {
    std::vector<double> losses(copies_.size());
    RETURN_IF_ERROR(copies_.OnEach(context, [&](size_t i, ModelCopy& copy) {
      const size_t first = samples.size() * i / copies_.size();
      const size_t end = samples.size() * (i + 1) / copies_.size();
      const absl::Span<const uint64_t> own = samples.subspan(first, end - first);
      // Dropout differs by step, by peer and by copy, yet the same lease gives the same masks.
      const uint64_t seed = spec_.seed() + step * 0x9e3779b97f4a7c15u + own[0];
      losses[i] = copy.Train(SampleRows(own), static_cast<int64_t>(samples.size()), seed);
    }));
    return std::accumulate(losses.begin(), losses.end(), 0.0);
  }

  at::Tensor SampleRows(absl::Span<const uint64_t> samples) const {
    std::vector<Row> places;
    for (const uint64_t sample : samples) {
      const SampleMixture::Place place = order_.Of(sample);
      places.push_back({&data_.source(place.source).train(), place.first_token});
    }
    return Gather(places);
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
    return tokens;
  }

  // Summed over the tokens of `count` windows.
  double WindowLoss(const ModelCopy& copy, const ModelParameters& theta, uint64_t first,
                    uint64_t count) const {
    std::vector<Row> windows;
    for (uint64_t i = 0; i < count; ++i) windows.push_back(EvaluationRow(first + i));
    return copy.Evaluate(theta, Gather(windows)) * static_cast<double>(count) *
           static_cast<double>(spec_.model().context());
  }

  const v1::RunSpec spec_;
  const v1::Manifest manifest_;
  const TrainingData& data_;
  const SampleMixture order_;
  const std::string shape_;  // for messages
  std::unique_ptr<InnerOptimizer> optimizer_;
  FlatBuffer flat_;
  ModelCopies copies_;
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
                                                       const std::vector<std::string>& devices) {
  RETURN_IF_ERROR(CheckNames(spec.inner()));
  if (devices.size() > 1 && spec.inner().batch() < devices.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "[worker] device names ", devices.size(), " devices (", absl::StrJoin(devices, ","),
        "), and a step of the run has inner.batch = ", spec.inner().batch(),
        " sequences; name that many devices at most"));
  }
  ASSIGN_OR_RETURN(std::unique_ptr<Model> model,
                   MakeModel(spec.model(), spec.inner().checkpointing()));
  const Tokenizer* tokenizer = data.tokenizer();
  if (tokenizer != nullptr && spec.model().vocabulary() < tokenizer->vocabulary()) {
    return absl::InvalidArgumentError(
        absl::StrCat("model.vocabulary is ", spec.model().vocabulary(), "; tokenizer \"",
                     tokenizer->kind(), "\" needs ", tokenizer->vocabulary()));
  }
  const uint64_t validation = data.validation_tokens(), context = spec.model().context();
  if (spec.data().validation_fraction() > 0 && validation < context + 1) {
    return absl::InvalidArgumentError(absl::StrCat("data: the validation split has ",
                                                   Counted(validation, "token"),
                                                   "; one sequence needs ", context + 1));
  }
  auto order =
      SampleMixture::Make(spec.seed(), data.TrainTokens(), data.weights(), spec.model().context());
  RETURN_IF_ERROR(Annotate(order.status(), "data"));
  std::unique_ptr<ModelTrainer> trainer;
  RETURN_IF_ERROR(CatchTorch("making the trainer", [&] {
    trainer =
        std::make_unique<ModelTrainer>(spec, model->manifest(), data, *std::move(order), devices);
  }));
  RETURN_IF_ERROR(trainer->Allocate(*model));
  return std::unique_ptr<Trainer>(std::move(trainer));
}

}  // namespace atolld
