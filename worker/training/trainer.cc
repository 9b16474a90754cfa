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
#include "worker/base/manifest.h"
#include "worker/base/schedule.h"
#include "worker/base/trained_tensors.h"
#include "worker/hub/safetensors.h"
#include "worker/model/architectures.h"
#include "worker/model/torch_edge.h"
#include "worker/training/flat_buffer.h"
#include "worker/training/gradient_terms.h"
#include "worker/training/model_copies.h"

namespace atolld {
namespace {

// How many tokens are evaluated at once: enough to fill the matrix products, and few enough that on
// a CPU the activations of a small model stay in the caches and the logits of a large one are
// small.
uint64_t EvaluationTokens(const at::Device& device) { return device.is_cpu() ? 1024 : 4096; }

// If peers own experts, the gradient and the state of all tensors may not fit in the memory, and
// which are trained is said with the first steps.
TrainedTensors FirstTrained(const v1::RunSpec& spec, const v1::Manifest& manifest) {
  if (spec.experts().tensors().empty()) return TrainedTensors(manifest);
  return {manifest, std::vector<bool>(static_cast<size_t>(manifest.tensors_size()), false)};
}

class ModelTrainer final : public Trainer {
 public:
  ModelTrainer(const v1::RunSpec& spec, const v1::Manifest& manifest,
               std::shared_ptr<const TokenCorpus> corpus, const std::vector<std::string>& devices)
      : spec_(spec),
        manifest_(manifest),
        shared_(SharedPart(manifest, PersonalPatterns(spec.model()))),
        corpus_(std::move(corpus)),
        shape_(absl::StrCat(Counted(manifest_.elements(), "parameter"), " in ",
                            Counted(manifest_.tensors_size(), "tensor"))),
        trained_(FirstTrained(spec, manifest)),
        copies_(devices) {}

  absl::Status Allocate(const Model& model) {
    const std::string context = absl::StrCat("allocating parameters, gradient and optimiser on ",
                                             copies_.device().str(), ", ", shape_);
    absl::Status made;
    RETURN_IF_ERROR(CatchTorch(context, [&] {
      flat_ = FlatBuffer(manifest_.elements(), copies_.device());
      auto optimizer = InnerOptimizer::Make(ForOptimizer(spec_.inner()), manifest_,
                                            copies_.device().str(), trained_);
      made = optimizer.status();
      if (made.ok()) optimizer_ = *std::move(optimizer);
      terms_ = std::make_unique<GradientTerms>(spec_.inner(), shared_.elements(), copies_.device());
    }));
    RETURN_IF_ERROR(made);
    RETURN_IF_ERROR(copies_.Allocate(spec_, model, flat_.there(), trained_, context));
    return personal().empty() ? absl::OkStatus() : Draw();
  }

  absl::Status Freeze(const v1::TrainSteps& train) override {
    ASSIGN_OR_RETURN(const TrainedTensors trained, TrainedTensors::Without(train, manifest_));
    const std::string context = absl::StrCat("allocating gradient and optimiser of ",
                                             Counted(trained.elements(), "trained parameter"),
                                             " on ", copies_.device().str());
    const bool same = trained == trained_;
    // The gradient's memory first, so that the state can be moved to it. If anything fails from
    // here on, no set of tensors is the same, so the next call binds the copies again.
    if (!same) {
      trained_ = TrainedTensors();
      RETURN_IF_ERROR(copies_.OnEach(context, [](size_t, ModelCopy& copy) { copy.Release(); }));
    }
    RETURN_IF_ERROR(CatchTorch(context, [&] {
      optimizer_->Train(trained);
      if (!same) terms_->Train(trained);
    }));
    if (same) return absl::OkStatus();
    RETURN_IF_ERROR(copies_.OnEach(context, [&](size_t, ModelCopy& copy) { copy.Bind(trained); }));
    trained_ = trained;
    return absl::OkStatus();
  }
  absl::Status ShapeState(const std::vector<bool>& trained) override {
    return CatchTorch(absl::StrCat("allocating the optimiser's state on ", copies_.device().str()),
                      [&] { optimizer_->Train(TrainedTensors(manifest_, trained)); });
  }
  const v1::Manifest& manifest() const override { return shared_; }
  absl::Status Use(std::shared_ptr<const Corpus> corpus) override {
    corpus_ = std::static_pointer_cast<const TokenCorpus>(std::move(corpus));
    return absl::OkStatus();
  }
  const Corpus& corpus() const override { return *corpus_; }
  absl::Span<float> parameters() override { return flat_.values().subspan(0, shared_.elements()); }
  absl::Span<float> personal() override { return flat_.values().subspan(shared_.elements()); }
  GradientTerms& terms() override { return *terms_; }
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
    return absl::MakeConstSpan(gradient.data_ptr<float>(), trained_.elements());
  }
  InnerOptimizer& optimizer() override { return *optimizer_; }
  double Epochs(uint64_t samples) const override { return corpus_->Epochs(samples); }

  absl::Status Initialise() override {
    if (spec_.model().from_file()) {
      RETURN_IF_ERROR(Load(spec_.model().initial_path()));
      return PushParameters();
    }
    return Draw();
  }

  absl::StatusOr<double> Step(uint64_t step, absl::Span<const uint64_t> samples) override {
    const size_t least = spec_.data().private_() ? 1 : copies_.size();
    if (samples.size() < least) {
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
      terms_->Add(flat_.there(), copies_.first().gradient());
      norm = optimizer_->Step(LearningRate(spec_.inner(), step), flat_.there(),
                              copies_.first().gradient());
    }));
    if (!std::isfinite(norm)) {
      return absl::FailedPreconditionError(absl::StrCat("step ", step, ": the gradient's norm is ",
                                                        norm, " (the loss is ", loss, ")"));
    }
    return loss;
  }

  absl::StatusOr<EvaluationSum> EvaluateOn(const Corpus& corpus, absl::Span<const float> theta,
                                           absl::Span<const float> own, uint32_t share,
                                           uint32_t shares,
                                           const std::function<bool()>& stop) override {
    if (shares == 0 || share >= shares || theta.size() + own.size() != manifest_.elements()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "evaluate share ", share, " of ", shares, " on ",
          Counted(theta.size() + own.size(), "parameter"), "; the model has ", shape_));
    }
    const auto& read = static_cast<const TokenCorpus&>(corpus);
    const absl::Span<const float> whole = Whole(theta, own);
    const uint64_t context = read.evaluation_length() - 1;  // of the longest
    const uint64_t windows = read.EvaluationWindows();
    const uint64_t batch = std::max<uint64_t>(1, EvaluationTokens(copies_.device()) / context);
    const uint64_t end = windows * (share + uint64_t{1}) / shares;
    std::vector<ModelParameters> thetas(copies_.size());
    RETURN_IF_ERROR(copies_.OnEach(
        absl::StrCat("evaluation, ", shape_),
        [&](size_t i, const ModelCopy& copy) { thetas[i] = copy.BindTheta(whole); }));
    EvaluationSum sum;
    // Every copy has one batch of each turn, and all are summed in their order: the number of
    // copies changes nothing.
    for (uint64_t first = windows * share / shares; first < end; first += batch * copies_.size()) {
      if (stop && stop()) return absl::CancelledError("the evaluation was stopped");
      const uint64_t last = std::min(end, first + batch * copies_.size()) - 1;
      std::vector<EvaluationSum> sums(copies_.size());
      RETURN_IF_ERROR(
          copies_.OnEach(absl::StrCat("evaluation of windows ", first, "-", last, ", tokens [",
                                      batch, ", ", context, "], ", shape_),
                         [&](size_t i, const ModelCopy& copy) {
                           const uint64_t begin = std::min(end, first + i * batch);
                           const uint64_t count = std::min(batch, end - begin);
                           if (count > 0)
                             sums[i] = EvaluateWindows(read, copy, thetas[i], begin, count);
                         }));
      for (const EvaluationSum& one : sums) {
        sum.loss_sum += one.loss_sum;
        sum.tokens += one.tokens;
      }
    }
    return sum;
  }

 private:
  absl::Status Load(const std::string& path) {
    if (!path.empty()) {
      return Annotate(LoadParameters(path, manifest_, flat_.values()), "initial");
    }
    return absl::FailedPreconditionError(
        "the run begins with a model from a file, and this machine is to read it; name the file as "
        "[model] initial");
  }

  absl::Status Draw() {
    return CatchTorch(absl::StrCat("initial parameters, ", shape_), [&] {
      // The same numbers whatever the device.
      copies_.first().model().Initialise(flat_.here(), spec_.seed());
      flat_.Push();
    });
  }

  // `theta` itself where there is nothing behind it.
  absl::Span<const float> Whole(absl::Span<const float> theta, absl::Span<const float> own) {
    if (own.empty()) return theta;
    whole_.resize(manifest_.elements());
    std::copy(own.begin(), own.end(), std::copy(theta.begin(), theta.end(), whole_.begin()));
    return whole_;
  }

  std::string Transfer(absl::string_view what, absl::string_view direction) const {
    return absl::StrCat("copying ", what, " ", direction, " ", copies_.device().str(), ", ",
                        shape_);
  }

  // Leaves the gradients with the copies.
  absl::StatusOr<double> LossAndGradient(uint64_t step, absl::Span<const uint64_t> samples,
                                         const std::string& context) {
    std::vector<double> losses(copies_.size());
    const int64_t whole = WholeOf(samples);
    RETURN_IF_ERROR(copies_.OnEach(context, [&](size_t i, ModelCopy& copy) {
      const size_t first = samples.size() * i / copies_.size();
      const size_t end = samples.size() * (i + 1) / copies_.size();
      const absl::Span<const uint64_t> own = samples.subspan(first, end - first);
      if (own.empty()) return copy.TrainNothing();
      // Dropout differs by step, by peer and by copy, yet the same lease gives the same masks.
      const uint64_t seed = spec_.seed() + step * 0x9e3779b97f4a7c15u + own[0];
      const Sequences rows = SampleRows(own);
      losses[i] = copy.Train(rows.tokens, whole, seed, rows.counts);
    }));
    return std::accumulate(losses.begin(), losses.end(), 0.0);
  }

  // Of sequences of different lengths the shorter ones are filled up with what does not count.
  struct Sequences {
    at::Tensor tokens;     // int64 [rows, longest]
    at::Tensor counts;     // bool [rows, longest - 1]; undefined: all targets count
    uint64_t targets = 0;  // that count
  };

  // What ModelCopy::Train divides by: rows, or of conversations targets that count.
  int64_t WholeOf(absl::Span<const uint64_t> samples) const {
    if (corpus_->SampleRow(samples[0]).marks == nullptr) {
      return static_cast<int64_t>(samples.size());
    }
    uint64_t targets = 0;
    for (const uint64_t sample : samples) targets += corpus_->TargetsOf(sample);
    return static_cast<int64_t>(targets);
  }

  Sequences SampleRows(absl::Span<const uint64_t> samples) const {
    std::vector<TokenCorpus::Row> rows;
    for (const uint64_t sample : samples) rows.push_back(corpus_->SampleRow(sample));
    return Gather(rows);
  }

  std::string StepContext(uint64_t step, size_t batch) const {
    return absl::StrCat("step ", step, ", tokens [", batch, ", ", spec_.model().context(), "], ",
                        shape_);
  }

  static Sequences Gather(absl::Span<const TokenCorpus::Row> rows) {
    uint64_t length = 0;
    for (const TokenCorpus::Row& row : rows) length = std::max(length, row.length);
    const auto n = static_cast<int64_t>(rows.size()), columns = static_cast<int64_t>(length);
    Sequences out;
    out.tokens = at::zeros({n, columns}, at::kLong);
    if (rows[0].marks != nullptr) out.counts = at::zeros({n, columns - 1}, at::kBool);
    int64_t* tokens = out.tokens.data_ptr<int64_t>();
    for (size_t i = 0; i < rows.size(); ++i, tokens += length) {
      const TokenCorpus::Row& row = rows[i];
      row.split->Read(row.first, absl::MakeSpan(tokens, row.length));
      out.targets += row.Targets();
      if (row.marks == nullptr) continue;
      bool* counts = out.counts.data_ptr<bool>() + i * (length - 1);
      for (uint64_t k = 1; k < row.length; ++k) counts[k - 1] = row.marks->learnt[row.first + k];
    }
    return out;
  }

  // Summed over the targets of `count` windows.
  static EvaluationSum EvaluateWindows(const TokenCorpus& read, const ModelCopy& copy,
                                       const ModelParameters& theta, uint64_t first,
                                       uint64_t count) {
    std::vector<TokenCorpus::Row> windows;
    for (uint64_t i = 0; i < count; ++i) windows.push_back(read.EvaluationRow(first + i));
    const Sequences rows = Gather(windows);
    if (rows.targets == 0) return {};
    const double mean = copy.Evaluate(theta, rows.tokens, rows.counts);
    return {mean * static_cast<double>(rows.targets), rows.targets};
  }

  const v1::RunSpec spec_;
  const v1::Manifest manifest_;  // of the whole vector
  const v1::Manifest shared_;
  std::shared_ptr<const TokenCorpus> corpus_;
  const std::string shape_;  // for messages
  TrainedTensors trained_;   // whose gradient is computed
  std::unique_ptr<InnerOptimizer> optimizer_;
  std::unique_ptr<GradientTerms> terms_;
  std::vector<float> whole_;  // theta and personal tensors that are evaluated
  FlatBuffer flat_;
  ModelCopies copies_;
};

// A worker that is older than the run reports that, instead of training differently.
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
  // Not the trainer's to delete.
  const std::shared_ptr<const TrainingData> borrowed(std::shared_ptr<const TrainingData>(), &data);
  ASSIGN_OR_RETURN(std::shared_ptr<const TokenCorpus> corpus, TokenCorpus::Make(spec, borrowed));
  return Make(spec, std::move(corpus), devices);
}

absl::StatusOr<std::unique_ptr<Trainer>> Trainer::Make(const v1::RunSpec& spec,
                                                       std::shared_ptr<const TokenCorpus> corpus,
                                                       const std::vector<std::string>& devices) {
  RETURN_IF_ERROR(CheckNames(spec.inner()));
  RETURN_IF_ERROR(GradientTerms::Check(spec.inner()));
  if (devices.size() > 1 && spec.inner().batch() < devices.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "[worker] device names ", devices.size(), " devices (", absl::StrJoin(devices, ","),
        "), and a step of the run has inner.batch = ", spec.inner().batch(),
        " sequences; name that many devices at most"));
  }
  ASSIGN_OR_RETURN(std::unique_ptr<Model> model,
                   MakeModel(spec.model(), spec.inner().checkpointing()));
  std::unique_ptr<ModelTrainer> trainer;
  RETURN_IF_ERROR(CatchTorch("making the trainer", [&] {
    trainer = std::make_unique<ModelTrainer>(spec, model->manifest(), std::move(corpus), devices);
  }));
  RETURN_IF_ERROR(trainer->Allocate(*model));
  return std::unique_ptr<Trainer>(std::move(trainer));
}

}  // namespace atolld
