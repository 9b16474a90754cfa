// The copies of the model among which a worker divides each step: data parallel training on the
// devices of one machine.
//
// The law: copy i has the rows [i n / N, (i + 1) n / N) of n, and gradients are summed in the
// order of the copies, so that a step's result is the same bits each time whatever finishes first.
// One copy alone works on the caller's thread; of several each has a thread of its own. One
// caller's thread.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "atoll/v1/run.pb.h"
#include "worker/base/task_thread.h"
#include "worker/training/model_copy.h"

namespace atolld {

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
