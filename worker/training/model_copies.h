// Data parallel training on the devices of one machine: a worker divides the batch of each step
// among several copies of the model.
//
// The law: if a batch has n rows, copy number i of N computes the rows [i n / N, (i + 1) n / N).
// Gradients are summed in the order of the copies, so the bits of the result do not depend on which
// copy finishes first.
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
#include "worker/base/trained_tensors.h"
#include "worker/model/model.h"

namespace atolld {

// A thread that runs its owner's tasks, one after another.
//
// The thread is kept between tasks, because the objects that libtorch keeps for each thread, such
// as helper threads and GPU handles, are expensive to create again. Start and Wait may be called
// only on the owner's thread.
class TaskThread {
 public:
  TaskThread();
  ~TaskThread();  // Waits until the running task has ended.
  TaskThread(const TaskThread&) = delete;
  TaskThread& operator=(const TaskThread&) = delete;

  // Begins the task, which must not throw. Wait must have returned for the previous task.
  void Start(std::function<void()> task);

  // Blocks until no task runs. Everything that the task wrote is then visible to the caller.
  void Wait();

 private:
  void Run();
  bool Idle() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return task_ == nullptr; }
  bool Called() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return task_ != nullptr || ending_; }

  absl::Mutex mutex_;
  std::function<void()> task_ ABSL_GUARDED_BY(mutex_);  // The task that is to run or is running.
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // Must be the last member: it uses the others.
};

// One copy of the model in training, on one device. It computes the gradient of its share of the
// step's batch.
//
// The law: a copy takes the trainer's parameters at the start of each step, so it has no state of
// its own that could drift. May throw libtorch's exceptions. Used by one thread at a time.
class ModelCopy {
 public:
  // Makes copy number `index` of `copies` on `device`. The first copy computes with `parameters`
  // (the trainer's, flat fp32 on its device) in place; the others have memory of their own. `spec`
  // must outlive it. It has no gradient before the first call of Bind.
  ModelCopy(const v1::RunSpec& spec, const Model& model, const at::Device& device,
            const at::Tensor& parameters, size_t index, size_t copies);

  const Model& model() const { return *model_; }
  const at::Device& device() const { return device_; }

  // Sets the tensors of which Train computes the gradient. Gradients that were computed before are
  // lost. Release frees the memory of the gradient; Bind must follow it.
  void Bind(const TrainedTensors& trained);
  void Release();

  // The gradient that Train has computed: a flat fp32 vector on the device that has the trained
  // tensors (trained_tensors.h).
  const at::Tensor& gradient() const { return gradient_; }

  // Computes the contribution of `rows` to the mean loss and to the mean gradient of the whole
  // batch. `rows` is this copy's part of the batch, int64 [rows, tokens of a sequence + 1]. Returns
  // the contribution to the loss, in nats per target, and stores the contribution to the gradient
  // in gradient(). The contributions of all copies sum to the batch's means. `counts` (bool, on the
  // CPU, one column less than `rows`) is true for each target that counts, and `whole` is the
  // number of targets in the batch that count. If `counts` is undefined, all targets count, and
  // `whole` is the number of rows in the batch. The rows are computed in `inner.accumulation`
  // pieces. `seed` is the seed of dropout. A piece whose loss does not depend on any trained tensor
  // adds nothing to the gradient.
  double Train(const at::Tensor& rows, int64_t whole, uint64_t seed,
               const at::Tensor& counts = at::Tensor());

  // Call this instead of Train if the copy has no rows in this step. Sets the gradient to zero.
  void TrainNothing() const;

  // Prepares `theta` (flat fp32, in the manifest's order) for Evaluate. On a CPU `theta` is used in
  // place, and must outlive the result; otherwise it is copied to the device.
  ModelParameters BindTheta(absl::Span<const float> theta) const;

  // Returns the mean loss of `rows` at `theta`, in nats per target that counts (at least one must),
  // without dropout, in fp32.
  double Evaluate(const ModelParameters& theta, const at::Tensor& rows,
                  const at::Tensor& counts = at::Tensor()) const;

 private:
  void Seed(uint64_t seed) const;
  at::Tensor TargetsOf(const at::Tensor& here, const at::Tensor& counts) const;

  const v1::RunSpec& spec_;
  const at::Device device_;
  const at::Generator generator_;  // Undefined if libtorch's default generator is used.
  const std::unique_ptr<Model> model_;
  const at::Tensor source_;      // The trainer's parameters.
  const at::Tensor parameters_;  // source_ itself, or the memory to which it is copied.
  at::Tensor gradient_;
  ModelParameters bound_;
};

// All copies of the model. A single copy works on the caller's thread; if there are several, each
// has a thread of its own. Used by one thread.
class ModelCopies {
 public:
  // `devices` has libtorch's name of the device of each copy, at least one. May throw libtorch's
  // exceptions.
  explicit ModelCopies(const std::vector<std::string>& devices);

  size_t size() const { return devices_.size(); }
  // The first copy's device, on which the parameters and the optimiser are.
  const at::Device& device() const { return devices_.front(); }

  // Makes the copies of `model` for these parameters, which lie on device(), to train these
  // tensors. Several copies on a CPU divide among them the threads that libtorch has at the time of
  // this call; each gets at least one. `spec` must outlive the copies.
  absl::Status Allocate(const v1::RunSpec& spec, const Model& model, const at::Tensor& parameters,
                        const TrainedTensors& trained, absl::string_view context);

  // Runs `task` for all copies at the same time, and waits for all of them. If a task fails,
  // returns the error of the first copy that failed; the message has `context` and the copy's
  // number and device.
  using Task = std::function<void(size_t index, ModelCopy& copy)>;
  absl::Status OnEach(absl::string_view context, const Task& task);

  // Adds the gradients of the other copies to that of the first. May throw libtorch's exceptions.
  void SumGradients();

  const ModelCopy& first() const { return *copies_.front(); }

 private:
  absl::Status Run(absl::string_view context, const std::function<void(size_t index)>& task);

  const std::vector<at::Device> devices_;
  std::vector<std::unique_ptr<ModelCopy>> copies_;  // Filled by Allocate.
  // Empty if there is only one copy. Must be the last member, because the threads use the others.
  std::vector<std::unique_ptr<TaskThread>> threads_;
};

}  // namespace atolld
