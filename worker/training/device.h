// Where a peer's worker trains: the CPU, one GPU or several devices at once, as `[worker] device`
// says.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace atolld {

struct GpuProbe {
  bool available;  // libtorch can use one
  int count;
};
GpuProbe ProbeGpus();

// libtorch's names of the devices, each "cpu" or "cuda:1", of "auto" (the first GPU where there is
// one, else the CPU), "cuda:all" or a list with commas between of either "cpu", as often as wanted,
// or different "cuda" (the first) and "cuda:N". FAILED_PRECONDITION: there is no such GPU.
// INVALID_ARGUMENT: another name or list.
absl::StatusOr<std::vector<std::string>> ResolveDevices(const std::string& names,
                                                        const GpuProbe& gpus);

}  // namespace atolld
