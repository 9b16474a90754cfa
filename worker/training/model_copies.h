// The copies of the model among which a worker divides each step: data parallel training on the
// devices of one machine.
//
// The law: copy i has the rows [i n / N, (i + 1) n / N) of n, and gradients are summed in the
// order of the copies, so that a step's result is the same bits each time whatever finishes first.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "atoll/v1/run.pb.h"
#include "worker/model/model.h"

namespace atolld {

// A thread that does what its owner gives it, one task after another.
//
// It lives as long as its owner wants, since what libtorch keeps for a thread (its pool of helpers,
// a GPU's handles) is dear to make anew. Start and Wait: one owner's thread.
class TaskThread {
 public:
  TaskThread();
  ~TaskThread();  // after the task that runs
  TaskThread(const TaskThread&) = delete;
  TaskThread& operator=(const TaskThread&) = delete;

  // Begins the task, which must not throw; the one before must have been waited for.
  void Start(std::function<void()> task);

  // Returns when nothing runs; what the task wrote is seen then.
  void Wait();

 private:
  void Run();
  bool Idle() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return task_ == nullptr; }
  bool Called() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return task_ != nullptr || ending_; }

  absl::Mutex mutex_;
  std::function<void()> task_ ABSL_GUARDED_BY(mutex_);  // kept until it is done
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses the others
};

// One copy of the model in training, on one device: it computes the gradient of those of a step's
// sequences that are given to it.
//
// The law: the parameters are those of the trainer, taken at the start of each step, so a copy has
// no state of its own that could drift. What libtorch throws passes through. One thread at a time.
class ModelCopy {
 public:
  // A copy of `model` on `device`, number `index` of `copies`. The first computes with `parameters`
  // (flat fp32, the trainer's, on its device) where they lie, the others have memory of their own.
  // `spec` must outlive it.
  ModelCopy(const v1::RunSpec& spec, const Model& model, const at::Device& device,
            const at::Tensor& parameters, size_t index, size_t copies);

  const Model& model() const { return *model_; }
  const at::Device& device() const { return device_; }

  // Flat fp32 on the device, in the manifest's order. Train sets it.
  const at::Tensor& gradient() const { return gradient_; }

  // The part that `rows` (int64 [some of the batch, tokens of a sequence + 1]) have in the loss of
  // a batch, in nats a target, and in gradient(): those of all parts sum to the batch's mean.
  // `counts` (bool, on the CPU, a column less) says which targets count, and `whole` how many do so
  // in the batch; undefined: all do, and `whole` is the batch's number of rows. Computed in
  // `inner.accumulation` pieces. Dropout draws from `seed`.
  double Train(const at::Tensor& rows, int64_t whole, uint64_t seed,
               const at::Tensor& counts = at::Tensor());

  // As Train, of no row: the gradient is zero, and so is the part of the loss.
  void TrainNothing() const;

  // `theta` (flat fp32, in the manifest's order) for Evaluate: on a CPU where it lies, and there it
  // must stay; elsewhere copied to the device, once.
  ModelParameters Bind(absl::Span<const float> theta) const;

  // Mean loss of `rows` at `theta`, in nats a target that counts, of which there must be one,
  // without dropout, in fp32.
  double Evaluate(const ModelParameters& theta, const at::Tensor& rows,
                  const at::Tensor& counts = at::Tensor()) const;

 private:
  void Seed(uint64_t seed) const;
  at::Tensor TargetsOf(const at::Tensor& here, const at::Tensor& counts) const;

  const v1::RunSpec& spec_;
  const at::Device device_;
  const at::Generator generator_;  // undefined: libtorch's own of the device
  const std::unique_ptr<Model> model_;
  const at::Tensor source_;      // the trainer's parameters
  const at::Tensor parameters_;  // source_ itself, or where it is copied to
  const at::Tensor gradient_;
  const ModelParameters bound_;
};

// All of them. One copy alone works on the caller's thread; of several each has a thread of its
// own. One caller's thread.
class ModelCopies {
 public:
  // libtorch's names of the devices, one a copy, at least one. May throw what libtorch throws.
  explicit ModelCopies(const std::vector<std::string>& devices);

  size_t size() const { return devices_.size(); }
  // The first's, on which parameters and optimiser are.
  const at::Device& device() const { return devices_.front(); }

  // Copies of `model` for these parameters, which lie on device(). Several on a CPU share out the
  // threads that libtorch has now, each with one at least. `spec` must outlive them.
  absl::Status Allocate(const v1::RunSpec& spec, const Model& model, const at::Tensor& parameters,
                        absl::string_view context);

  // Does `task` for all copies at once, and returns when all are done: the error of the first that
  // failed, with `context` and the copy's number and device.
  using Task = std::function<void(size_t index, ModelCopy& copy)>;
  absl::Status OnEach(absl::string_view context, const Task& task);

  // Adds the others' gradients to that of the first. May throw what libtorch throws.
  void SumGradients();

  const ModelCopy& first() const { return *copies_.front(); }

 private:
  absl::Status Run(absl::string_view context, const std::function<void(size_t index)>& task);

  const std::vector<at::Device> devices_;
  std::vector<std::unique_ptr<ModelCopy>> copies_;  // since Allocate
  std::vector<std::unique_ptr<TaskThread>>
      threads_;  // none for one copy; last: they use the others
};

}  // namespace atolld
