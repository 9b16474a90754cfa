#include "worker/training/model_copies.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "worker/kernels/torch_version.h"
#include "worker/model/torch_edge.h"
#include "worker/training/math_library.h"

namespace atolld {
TaskThread::TaskThread() : thread_([this] { Run(); }) {}

TaskThread::~TaskThread() {
  {
    const absl::MutexLock lock(&mutex_);
    ending_ = true;
  }
  thread_.join();
}

void TaskThread::Start(std::function<void()> task) {
  const absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(this, &TaskThread::Idle));
  task_ = std::move(task);
}

void TaskThread::Wait() {
  const absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(this, &TaskThread::Idle));
}

void TaskThread::Run() {
  while (true) {
    std::function<void()> task;
    {
      const absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(this, &TaskThread::Called));
      if (task_ == nullptr) return;
      task = task_;
    }
    task();
    const absl::MutexLock lock(&mutex_);
    task_ = nullptr;
  }
}

namespace {

// libtorch has one generator for the CPU, from which several threads would draw in any order, so
// several copies get their own.
at::Generator OwnGenerator(const at::Device& device, size_t copies) {
  return copies > 1 && device.is_cpu() ? at::make_generator<at::CPUGeneratorImpl>(uint64_t{0})
                                       : at::Generator();
}

}  // namespace

ModelCopy::ModelCopy(const v1::RunSpec& spec, const Model& model, const at::Device& device,
                     const at::Tensor& parameters, size_t index, size_t copies)
    : spec_(spec),
      device_(device),
      generator_(OwnGenerator(device, copies)),
      model_(model.CopyTo(device, generator_)),
      source_(parameters),
      parameters_(index == 0 ? parameters : at::zeros_like(parameters, at::device(device))) {}

void ModelCopy::Bind(const TrainedTensors& trained) {
  Release();
  gradient_ = at::zeros({static_cast<int64_t>(trained.elements())}, parameters_.options());
  bound_ = model_->BindTrainable(parameters_, gradient_, trained);
}

void ModelCopy::Release() {
  bound_.clear();  // its views share the gradient's memory
  gradient_ = at::Tensor();
}

void ModelCopy::Seed(uint64_t seed) const {
  at::Generator generator =
      generator_.defined() ? generator_ : at::globalContext().defaultGenerator(device_);
  const std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_current_seed(seed);
}

// Returns the next token for each token, or the target that Model::Loss leaves out.
at::Tensor ModelCopy::TargetsOf(const at::Tensor& here, const at::Tensor& counts) const {
  const at::Tensor next = here.narrow(1, 1, here.size(1) - 1);
  if (!counts.defined()) return next;
  return next.masked_fill(counts.to(device_).logical_not(), kIgnoredTarget);
}

double ModelCopy::Train(const at::Tensor& rows, int64_t whole, uint64_t seed,
                        const at::Tensor& counts) {
  if (!parameters_.is_same(source_)) parameters_.copy_(source_);
  gradient_.zero_();
  const double dropout = spec_.model().dropout();
  if (dropout > 0) Seed(seed);
  const at::Tensor here = rows.to(device_);
  const at::Tensor tokens = here.narrow(1, 0, here.size(1) - 1), targets = TargetsOf(here, counts);
  const int64_t size = here.size(0);
  const int64_t parts =
      std::clamp<int64_t>(static_cast<int64_t>(spec_.inner().accumulation()), 1, size);
  double loss = 0;
  for (int64_t part = 0; part < parts; ++part) {
    const int64_t first = size * part / parts, count = size * (part + 1) / parts - first;
    const int64_t counted =
        counts.defined() ? counts.narrow(0, first, count).sum().item<int64_t>() : count;
    if (counted == 0) continue;  // its mean would be that of nothing
    const double share = static_cast<double>(counted) / static_cast<double>(whole);
    at::Tensor mean;
    {
      const Autocast autocast(device_.type(), spec_.inner().precision() == "bf16");
      mean = model_->Loss(bound_, tokens.narrow(0, first, count), targets.narrow(0, first, count),
                          dropout);
    }
    // A whole batch at once is left as it is, so that its gradient has no rounding of its own.
    if (mean.requires_grad()) (counted == whole ? mean : mean * share).backward();
    loss += share * static_cast<double>(mean.item<float>());
  }
  return loss;
}

void ModelCopy::TrainNothing() const {
  const at::NoGradGuard no_grad;
  gradient_.zero_();
}

ModelParameters ModelCopy::BindTheta(absl::Span<const float> theta) const {
  const at::NoGradGuard no_grad;
  // from_blob takes a plain pointer; nothing that evaluates writes through it.
  return model_->Bind(at::from_blob(const_cast<float*>(theta.data()),
                                    {static_cast<int64_t>(theta.size())}, at::kFloat)
                          .to(device_));
}

double ModelCopy::Evaluate(const ModelParameters& theta, const at::Tensor& rows,
                           const at::Tensor& counts) const {
  const at::NoGradGuard no_grad;
  const at::Tensor here = rows.to(device_);
  const at::Tensor mean = model_->Loss(theta, here.narrow(1, 0, here.size(1) - 1),
                                       TargetsOf(here, counts), /*dropout=*/0);
  return static_cast<double>(mean.item<float>());
}

ModelCopies::ModelCopies(const std::vector<std::string>& devices)
    : devices_(devices.begin(), devices.end()), copies_(devices.size()) {
  for (size_t i = 0; devices.size() > 1 && i < devices.size(); ++i) {
    threads_.push_back(std::make_unique<TaskThread>());
  }
}

absl::Status ModelCopies::Allocate(const v1::RunSpec& spec, const Model& model,
                                   const at::Tensor& parameters, const TrainedTensors& trained,
                                   absl::string_view context) {
  const int threads = std::max(1, at::get_num_threads() / static_cast<int>(size()));
  return Run(context, [&](size_t i) {
    if (size() > 1 && device().is_cpu()) SetMathThreads(threads);  // of this thread
    // By its own thread: memory lies close to the processor that first writes to it.
    copies_[i] =
        std::make_unique<ModelCopy>(spec, model, devices_[i], parameters, /*index=*/i, size());
    copies_[i]->Bind(trained);
  });
}

absl::Status ModelCopies::OnEach(absl::string_view context, const Task& task) {
  return Run(context, [&](size_t i) { task(i, *copies_[i]); });
}

absl::Status ModelCopies::Run(absl::string_view context, const std::function<void(size_t)>& task) {
  if (threads_.empty()) return CatchTorch(context, [&] { task(0); });
  std::vector<absl::Status> done(size());
  for (size_t i = 0; i < size(); ++i) {
    threads_[i]->Start([&, i] {
      const std::string which =
          absl::StrCat(context, ", copy ", i + 1, " of ", size(), " on ", devices_[i].str());
      done[i] = CatchTorch(which, [&] { task(i); });
    });
  }
  for (const auto& thread : threads_) thread->Wait();
  for (const absl::Status& one : done) RETURN_IF_ERROR(one);
  return absl::OkStatus();
}

void ModelCopies::SumGradients() {
  const at::NoGradGuard no_grad;
  const at::Tensor& sum = copies_.front()->gradient();
  for (size_t i = 1; i < size(); ++i) sum.add_(copies_[i]->gradient().to(device()));
}

}  // namespace atolld
