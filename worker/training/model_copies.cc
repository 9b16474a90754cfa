#include "worker/training/model_copies.h"

#include <ATen/Parallel.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "worker/model/torch_edge.h"
#include "worker/training/math_library.h"

namespace atolld {

ModelCopies::ModelCopies(const std::vector<std::string>& devices)
    : devices_(devices.begin(), devices.end()), copies_(devices.size()) {
  for (size_t i = 0; devices.size() > 1 && i < devices.size(); ++i) {
    threads_.push_back(std::make_unique<TaskThread>());
  }
}

absl::Status ModelCopies::Allocate(const v1::RunSpec& spec, const Model& model,
                                   const at::Tensor& parameters, absl::string_view context) {
  const int threads = std::max(1, at::get_num_threads() / static_cast<int>(size()));
  return Run(context, [&](size_t i) {
    if (size() > 1 && device().is_cpu()) SetMathThreads(threads);  // of this thread
    // By its own thread: memory lies close to the processor that first writes to it.
    copies_[i] =
        std::make_unique<ModelCopy>(spec, model, devices_[i], parameters, /*index=*/i, size());
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
