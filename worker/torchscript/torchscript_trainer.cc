#include "worker/torchscript/torchscript_trainer.h"

#include <ATen/core/grad_mode.h>
#include <torch/script.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <sstream>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "compression/base/status_macros.h"
#include "worker/base/file_io.h"
#include "worker/base/manifest.h"
#include "worker/base/schedule.h"
#include "worker/base/trained_tensors.h"
#include "worker/model/torch_edge.h"
#include "worker/training/gradient_terms.h"

namespace atolld {
namespace {

// TorchScript's errors are pages long: returns the line that names the error, or else the first
// line.
absl::Status InOneLine(const absl::Status& status) {
  if (status.ok()) return status;
  const std::vector<std::string> lines =
      absl::StrSplit(status.message(), '\n', absl::SkipWhitespace());
  std::string line = lines.empty() ? "" : lines.front();
  for (const std::string& one : lines) {
    const size_t at = one.find("Error: ");
    if (at != std::string::npos && one.rfind("Traceback", 0) != 0) line = one.substr(at + 7);
  }
  return absl::InvalidArgumentError(line);
}

at::Tensor TensorOf(const Array& array) {
  const at::ScalarType type = array.type == "<f4"   ? at::kFloat
                              : array.type == "<f8" ? at::kDouble
                              : array.type == "<i4" ? at::kInt
                              : array.type == "<i8" ? at::kLong
                              : array.type == "|u1" ? at::kByte
                                                    : at::kBool;
  // from_blob takes a plain pointer; nothing writes through it: batches are gathered copies.
  return at::from_blob(const_cast<uint8_t*>(array.bytes.data()), array.shape, type);
}

std::string ShapeOf(const at::Tensor& tensor) {
  return absl::StrCat("[", absl::StrJoin(tensor.sizes(), ", "), "]");
}

class TorchScriptTrainer final : public Trainer {
 public:
  TorchScriptTrainer(const v1::RunSpec& spec, std::shared_ptr<const ArrayCorpus> corpus)
      : spec_(spec), corpus_(std::move(corpus)) {}

  absl::Status Load() {
    const std::string& path = spec_.model().file();
    const auto context = [&](absl::string_view what) { return absl::StrCat(path, " ", what); };
    ASSIGN_OR_RETURN(const std::string bytes, ReadWholeFile(path));
    Sha256Stream sha;
    sha.Add(bytes);
    const std::string digest = sha.Finish();
    if (digest != spec_.model().file_digest()) {
      return absl::FailedPreconditionError(
          absl::StrCat("model: ", path, " has SHA-256 ", absl::BytesToHexString(digest),
                       "; the run trains ", absl::BytesToHexString(spec_.model().file_digest())));
    }
    const absl::Status loaded = CatchTorch("", [&] {
      std::istringstream stream(bytes);
      module_ = torch::jit::load(stream, at::Device(at::kCPU));
    });
    if (!loaded.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("model: ", path, " is not a TorchScript file that this libtorch can load"));
    }
    if (!module_.find_method("forward")) {
      return absl::InvalidArgumentError(absl::StrCat("model: ", context("has no forward")));
    }
    RETURN_IF_ERROR(Annotate(TakeParameters(), absl::StrCat("model: ", path)));
    auto inputs = MatchArguments(corpus_->arrays());
    RETURN_IF_ERROR(Annotate(inputs.status(), absl::StrCat("model: ", path)));
    inputs_ = *std::move(inputs);
    // If peers own experts, the first steps say what is trained (Trainer::Make).
    const bool all = spec_.experts().tensors().empty();
    trained_ = TrainedTensors(manifest_, std::vector<bool>(leaves_.size(), all));
    ASSIGN_OR_RETURN(optimizer_,
                     InnerOptimizer::Make(ForOptimizer(spec_.inner()), manifest_, "cpu", trained_));
    RETURN_IF_ERROR(Annotate(TryForward(), absl::StrCat("model: ", path)));
    return CatchTorch("allocating the gradient", [&] { AllocateGradient(); });
  }

  absl::Status Freeze(const v1::TrainSteps& train) override {
    ASSIGN_OR_RETURN(const TrainedTensors trained, TrainedTensors::Without(train, manifest_));
    return CatchTorch("allocating gradient and optimiser", [&] {
      const bool same = trained == trained_;
      // If anything fails from here on, no set of tensors is the same, so the next call allocates
      // the gradient again.
      if (!same) {
        trained_ = TrainedTensors();
        gradient_ = at::Tensor();
      }
      optimizer_->Train(trained);
      if (same) return;
      terms_->Train(trained);
      trained_ = trained;
      AllocateGradient();
    });
  }
  absl::Status ShapeState(const std::vector<bool>& trained) override {
    return CatchTorch("allocating the optimiser's state",
                      [&] { optimizer_->Train(TrainedTensors(manifest_, trained)); });
  }

  const v1::Manifest& manifest() const override { return shared_; }
  absl::Status Use(std::shared_ptr<const Corpus> corpus) override {
    auto read = std::static_pointer_cast<const ArrayCorpus>(std::move(corpus));
    ASSIGN_OR_RETURN(inputs_, MatchArguments(read->arrays()));
    corpus_ = std::move(read);
    return absl::OkStatus();
  }
  const Corpus& corpus() const override { return *corpus_; }
  absl::Span<float> parameters() override {
    return absl::MakeSpan(flat_.data_ptr<float>(), shared_.elements());
  }
  absl::Span<float> personal() override {
    return absl::MakeSpan(flat_.data_ptr<float>(), manifest_.elements())
        .subspan(shared_.elements());
  }
  GradientTerms& terms() override { return *terms_; }
  absl::Span<const float> gradient() const override {
    return absl::MakeConstSpan(gradient_.data_ptr<float>(), trained_.elements());
  }
  InnerOptimizer& optimizer() override { return *optimizer_; }
  // All of it lies in this process's memory.
  absl::Status FetchParameters() override { return absl::OkStatus(); }
  absl::Status PushParameters() override { return absl::OkStatus(); }
  absl::Status FetchState() override { return absl::OkStatus(); }
  absl::Status PushState() override { return absl::OkStatus(); }
  double Epochs(uint64_t samples) const override {
    return static_cast<double>(samples) / static_cast<double>(corpus_->samples());
  }

  absl::Status Initialise() override {
    return CatchTorch("initial parameters", [&] { flat_.copy_(initial_); });
  }

  absl::StatusOr<double> Step(uint64_t step, absl::Span<const uint64_t> samples) override {
    if (samples.empty()) {
      return absl::InvalidArgumentError(absl::StrCat("step ", step, ": no samples"));
    }
    std::vector<int64_t> rows;
    for (const uint64_t sample : samples) {
      rows.push_back(corpus_->Row(sample));
    }
    double loss = 0;
    const absl::Status done = CatchTorch("", [&] {
      // What the model draws differs by step and by peer, yet is the same for the same lease.
      at::manual_seed(spec_.seed() + step * 0x9e3779b97f4a7c15u + samples[0]);
      gradient_.zero_();
      module_.train();
      const at::Tensor mean = Loss(inputs_, rows);
      if (mean.requires_grad()) mean.backward();  // else it depends on frozen tensors alone
      TakeGradients();
      loss = mean.item<double>();
    });
    PutBuffersBack();
    RETURN_IF_ERROR(Annotate(InOneLine(done), absl::StrCat("step ", step)));
    if (!std::isfinite(loss)) {
      return absl::FailedPreconditionError(absl::StrCat("step ", step, ": the loss is ", loss));
    }
    double norm = 0;
    RETURN_IF_ERROR(CatchTorch(absl::StrCat("step ", step), [&] {
      terms_->Add(flat_, gradient_);
      norm = optimizer_->Step(LearningRate(spec_.inner(), step), flat_, gradient_);
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
      return absl::InvalidArgumentError(
          absl::StrCat("evaluate share ", share, " of ", shares, " on ", theta.size() + own.size(),
                       " parameters; the model has ", manifest_.elements()));
    }
    const auto& read = static_cast<const ArrayCorpus&>(corpus);
    ASSIGN_OR_RETURN(const std::vector<at::Tensor> inputs, MatchArguments(read.arrays()));
    uint64_t rows = read.validation_tokens();
    if (spec_.evaluation().tokens() > 0) rows = std::min(rows, spec_.evaluation().tokens());
    const uint64_t batch = std::max<uint64_t>(1, spec_.inner().batch());
    const uint64_t end = rows * (share + uint64_t{1}) / shares;
    BindTo(Whole(theta, own));
    EvaluationSum sum;
    absl::Status status;
    for (uint64_t first = rows * share / shares; first < end && status.ok(); first += batch) {
      if (stop && stop()) {
        status = absl::CancelledError("the evaluation was stopped");
        break;
      }
      status = EvaluateRows(read, inputs, first, std::min(batch, end - first), &sum);
    }
    BindTo(flat_);
    PutBuffersBack();
    RETURN_IF_ERROR(status);
    return sum;
  }

 private:
  // Both in one vector; `theta` where it lies if there is nothing behind it.
  at::Tensor Whole(absl::Span<const float> theta, absl::Span<const float> own) const {
    // from_blob takes a plain pointer; without gradients nothing writes through it.
    const auto view = [](absl::Span<const float> values) {
      return at::from_blob(const_cast<float*>(values.data()),
                           {static_cast<int64_t>(values.size())});
    };
    return own.empty() ? view(theta) : at::cat({view(theta), view(own)});
  }

  // Held-out rows from `first` on.
  absl::Status EvaluateRows(const ArrayCorpus& read, const std::vector<at::Tensor>& inputs,
                            uint64_t first, uint64_t count, EvaluationSum* sum) {
    std::vector<int64_t> numbers;
    for (uint64_t i = 0; i < count; ++i) {
      numbers.push_back(static_cast<int64_t>(read.first_held_out() + first + i));
    }
    sum->tokens += count;
    return Annotate(InOneLine(CatchTorch("",
                                         [&] {
                                           const at::NoGradGuard no_grad;
                                           module_.eval();
                                           sum->loss_sum += Loss(inputs, numbers).item<double>() *
                                                            static_cast<double>(count);
                                         })),
                    absl::StrCat("evaluation of rows ", first, "-", first + count - 1));
  }

  // The trainable parameters become views of one flat vector.
  absl::Status TakeParameters() {
    std::map<const void*, std::string> seen;  // a tensor under two names is trained once
    TensorAliases aliases;
    uint64_t offset = 0;
    for (const auto& named : module_.named_parameters(/*recurse=*/true)) {
      const at::Tensor& value = named.value;
      if (!value.requires_grad()) continue;
      const auto [first, fresh] = seen.emplace(value.unsafeGetTensorImpl(), named.name);
      if (!fresh) aliases.emplace_back(named.name, first->second);
      if (!fresh) continue;
      if (value.scalar_type() != at::kFloat) {
        return absl::InvalidArgumentError(absl::StrCat("parameter ", named.name, " is of ",
                                                       at::toString(value.scalar_type()),
                                                       "; it must be Float"));
      }
      v1::Tensor& tensor = *manifest_.add_tensors();
      tensor.set_name(named.name);
      for (const int64_t size : value.sizes()) tensor.add_shape(static_cast<uint64_t>(size));
      tensor.set_offset(offset);
      offset += static_cast<uint64_t>(value.numel());
      leaves_.push_back(value);
    }
    if (offset == 0) return absl::InvalidArgumentError("has no parameter that needs a gradient");
    manifest_.set_elements(offset);
    const std::vector<std::string> patterns = PersonalPatterns(spec_.model());
    RETURN_IF_ERROR(PlacePersonal(patterns, aliases, &manifest_));
    shared_ = SharedPart(manifest_, patterns);
    return CatchTorch("allocating parameters", [&] {
      const at::NoGradGuard no_grad;
      flat_ = at::empty({static_cast<int64_t>(manifest_.elements())});
      for (size_t i = 0; i < leaves_.size(); ++i) View(i, flat_).copy_(leaves_[i]);
      initial_ = flat_.clone();
      terms_ = std::make_unique<GradientTerms>(spec_.inner(), shared_.elements(), flat_.device());
      BindTo(flat_);
      for (const auto& buffer : module_.named_buffers(/*recurse=*/true)) {
        buffers_.emplace_back(buffer.value, buffer.value.clone());
      }
    });
  }

  // The gradients of the trained tensors lie in one vector. The others get none.
  void AllocateGradient() {
    gradient_ = at::zeros({static_cast<int64_t>(trained_.elements())});
    for (size_t i = 0; i < leaves_.size(); ++i) leaves_[i].set_requires_grad(trained_.trains(i));
  }

  at::Tensor View(size_t index, const at::Tensor& flat) const {
    return Part(index, flat, manifest_.tensors(static_cast<int>(index)).offset());
  }
  at::Tensor Part(size_t index, const at::Tensor& flat, uint64_t first) const {
    return flat.narrow(0, static_cast<int64_t>(first), leaves_[index].numel())
        .view(leaves_[index].sizes());
  }

  void BindTo(const at::Tensor& flat) {
    for (size_t i = 0; i < leaves_.size(); ++i) leaves_[i].set_data(View(i, flat));
  }

  // A parameter that the loss does not depend on has none: zero.
  void TakeGradients() {
    const at::NoGradGuard no_grad;
    for (size_t i = 0; i < leaves_.size(); ++i) {
      at::Tensor& grad = leaves_[i].mutable_grad();
      if (grad.defined()) Part(i, gradient_, trained_.place(i)).copy_(grad);
      grad = at::Tensor();
    }
  }

  void PutBuffersBack() {
    const at::NoGradGuard no_grad;
    for (auto& [buffer, value] : buffers_) buffer.copy_(value);
  }

  // All rows of what forward takes: which array each argument is.
  absl::StatusOr<std::vector<at::Tensor>> MatchArguments(const Arrays& arrays) const {
    std::vector<std::string> arguments, names;
    const c10::FunctionSchema& schema = module_.get_method("forward").function().getSchema();
    for (const c10::Argument& argument : schema.arguments()) {
      if (argument.name() != "self" && !argument.default_value().has_value()) {
        arguments.push_back(argument.name());
      }
    }
    for (const Array& array : arrays.all()) names.push_back(array.name);
    std::vector<size_t> by_name;
    for (const std::string& argument : arguments) {
      const auto found = std::find(names.begin(), names.end(), argument);
      if (found != names.end()) by_name.push_back(static_cast<size_t>(found - names.begin()));
    }
    if (by_name.size() < arguments.size()) {
      if (arguments.size() != names.size()) {
        return absl::InvalidArgumentError(absl::StrCat(
            "forward takes (", absl::StrJoin(arguments, ", "), "); the data has ", names.size(),
            names.size() == 1 ? " array (" : " arrays (", absl::StrJoin(names, ", "), ")"));
      }
      by_name.clear();
      for (size_t i = 0; i < names.size(); ++i) by_name.push_back(i);
    }
    std::vector<at::Tensor> inputs;
    for (const size_t index : by_name) inputs.push_back(TensorOf(arrays.all()[index]));
    return inputs;
  }

  // Throws what libtorch throws.
  at::Tensor Loss(const std::vector<at::Tensor>& inputs, const std::vector<int64_t>& rows) {
    const at::Tensor index = torch::tensor(rows, at::kLong);
    std::vector<torch::jit::IValue> batch;
    for (const at::Tensor& input : inputs) batch.emplace_back(input.index_select(0, index));
    return module_.forward(std::move(batch)).toTensor();
  }

  // Fails here, once, rather than in the middle of a run.
  absl::Status TryForward() {
    std::vector<int64_t> rows;
    const uint64_t count = std::min<uint64_t>(corpus_->samples(), spec_.inner().batch());
    for (uint64_t i = 0; i < count; ++i) rows.push_back(static_cast<int64_t>(i));
    std::string wrong;
    const absl::Status tried = CatchTorch("", [&] {
      module_.train();
      const at::Tensor loss = Loss(inputs_, rows);
      if (loss.dim() != 0 || !loss.is_floating_point()) {
        wrong = absl::StrCat("forward gives a tensor of ", at::toString(loss.scalar_type()), " ",
                             ShapeOf(loss), "; it must be a scalar loss");
      } else if (!loss.requires_grad()) {
        wrong = "forward's loss depends on no parameter that needs a gradient";
      }
    });
    PutBuffersBack();
    RETURN_IF_ERROR(Annotate(InOneLine(tried), "forward fails on the data"));
    return wrong.empty() ? absl::OkStatus() : absl::InvalidArgumentError(wrong);
  }

  const v1::RunSpec spec_;
  std::shared_ptr<const ArrayCorpus> corpus_;
  torch::jit::Module module_;
  v1::Manifest manifest_;  // of the whole vector
  v1::Manifest shared_;
  std::unique_ptr<InnerOptimizer> optimizer_;
  std::unique_ptr<GradientTerms> terms_;
  TrainedTensors trained_;
  std::vector<at::Tensor> leaves_;  // the module's own, in the manifest's order
  std::vector<at::Tensor> inputs_;  // of forward: all rows
  std::vector<std::pair<at::Tensor, at::Tensor>> buffers_;  // the module's own, as in the file
  at::Tensor flat_, initial_, gradient_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Trainer>> MakeTorchScriptTrainer(
    const v1::RunSpec& spec, std::shared_ptr<const ArrayCorpus> corpus) {
  RETURN_IF_ERROR(GradientTerms::Check(spec.inner()));
  auto trainer = std::make_unique<TorchScriptTrainer>(spec, std::move(corpus));
  RETURN_IF_ERROR(trainer->Load());
  return std::unique_ptr<Trainer>(std::move(trainer));
}

}  // namespace atolld
