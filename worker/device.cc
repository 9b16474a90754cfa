#include "worker/device.h"

#include <torch/torch.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "worker/torch_version.h"

namespace atolld {

GpuProbe ProbeGpus() {
  const bool available = torch::cuda::is_available();
  return {available, available ? static_cast<int>(torch::cuda::device_count()) : 0};
}

absl::StatusOr<std::string> ResolveDevice(const std::string& name, const GpuProbe& gpus) {
  if (name == "cpu" || (name == "auto" && !gpus.available)) return std::string("cpu");
  int number = 0;
  absl::string_view rest = name;
  if (name != "auto" && name != "cuda" &&
      (!absl::ConsumePrefix(&rest, "cuda:") || !absl::SimpleAtoi(rest, &number) || number < 0)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--device is \"", name, "\"; it must be \"auto\", \"cpu\", \"cuda\" or \"cuda:N\""));
  }
  if (!gpus.available) {
    return absl::FailedPreconditionError(
        absl::StrCat("[worker] device is \"", name, "\", and libtorch ", kTorchVersion,
                     " finds no GPU here; \"auto\" and \"cpu\" train without"));
  }
  if (number >= gpus.count) {
    return absl::FailedPreconditionError(absl::StrCat(
        "[worker] device is \"", name, "\", and this machine has ", gpus.count,
        gpus.count == 1 ? " GPU" : " GPUs", ", the last of them cuda:", gpus.count - 1));
  }
  return absl::StrCat("cuda:", number);
}

}  // namespace atolld
