#include "worker/training/device.h"

#include <torch/cuda.h>

#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "compression/base/status_macros.h"
#include "compression/base/words.h"
#include "worker/kernels/torch_version.h"
#include "worker/training/torch_library.h"

namespace atolld {
namespace {

absl::Status Unknown(const std::string& names, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(
      "--device is \"", names, "\"", why,
      "; it must be \"auto\", \"cpu\", \"cuda\", \"cuda:N\", \"cuda:all\", or a list of different "
      "GPUs or of \"cpu\" with commas between"));
}

// Returns the number of the GPU "cuda" or "cuda:N" of the list `names`.
absl::StatusOr<int> GpuNumber(absl::string_view name, const std::string& names,
                              const GpuProbe& gpus) {
  int number = 0;
  absl::string_view rest = name;
  if (name != "cuda" &&
      (!absl::ConsumePrefix(&rest, "cuda:") || !absl::SimpleAtoi(rest, &number) || number < 0)) {
    return Unknown(names, "");
  }
  if (!gpus.available) {
    return absl::FailedPreconditionError(absl::StrCat(
        "[worker] device is \"", names, "\", and libtorch ", kTorchVersion, " finds no GPU here",
        gpus.trouble.empty() ? "" : ": ", gpus.trouble, "; \"auto\" and \"cpu\" train without"));
  }
  if (number >= gpus.count) {
    return absl::FailedPreconditionError(
        absl::StrCat("[worker] device is \"", names, "\", and this machine has ",
                     Counted(gpus.count, "GPU"), ", the last of them cuda:", gpus.count - 1));
  }
  return number;
}

}  // namespace

GpuProbe ProbeGpus() {
  std::string trouble = LoadGpuLibrary();
  const bool available = torch::cuda::is_available();
  return {available, available ? static_cast<int>(torch::cuda::device_count()) : 0,
          std::move(trouble)};
}

absl::StatusOr<std::vector<std::string>> ResolveDevices(const std::string& names,
                                                        const GpuProbe& gpus) {
  std::vector<std::string> listed = absl::StrSplit(names, ',');
  if (names == "auto") listed = {gpus.available ? "cuda" : "cpu"};
  if (names == "mps") {
    return absl::InvalidArgumentError(
        "--device is \"mps\", and atoll-worker does not train on Apple's GPU; only workers in "
        "Python do, for models of kinds \"huggingface\" and \"external\". Set [worker] device to "
        "\"auto\" or \"cpu\"");
  }
  if (names == "cuda:all") {
    listed = {"cuda:0"};
    for (int i = 1; i < gpus.count; ++i) listed.push_back(absl::StrCat("cuda:", i));
  }
  std::vector<std::string> devices;
  std::set<int> numbers;
  for (const std::string& one : listed) {
    const absl::string_view name = absl::StripAsciiWhitespace(one);
    const bool cpu = name == "cpu";
    if (!cpu) {
      ASSIGN_OR_RETURN(const int number, GpuNumber(name, names, gpus));
      if (!numbers.insert(number).second) {
        return Unknown(names, absl::StrCat(", which names cuda:", number, " twice"));
      }
      devices.push_back(absl::StrCat("cuda:", number));
    } else {
      devices.push_back("cpu");
    }
    if (cpu != (devices.front() == "cpu")) {
      return Unknown(names, ": each step would wait for the CPU");
    }
  }
  return devices;
}

}  // namespace atolld
