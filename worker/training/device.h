// Chooses the devices on which a peer's worker trains, according to `[worker] device` of the
// config: the CPU, one GPU or several devices at once.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace atolld {

struct GpuProbe {
  bool available;  // True if libtorch can use a GPU.
  int count;
  std::string trouble = {};  // Why not, if there is a GPU's driver and its use fails for a reason.
};
GpuProbe ProbeGpus();

// Returns libtorch's names of the devices, each like "cpu" or "cuda:1". `names` is "auto" (the
// first GPU if there is one, else the CPU), "cuda:all", or a list separated by commas: either "cpu"
// any number of times, or different GPUs, each as "cuda:N" or as "cuda", which means the first GPU.
// Fails with FAILED_PRECONDITION if a named GPU does not exist, and with INVALID_ARGUMENT for any
// other name or list, and for "mps", which only workers in Python take.
absl::StatusOr<std::vector<std::string>> ResolveDevices(const std::string& names,
                                                        const GpuProbe& gpus);

}  // namespace atolld
