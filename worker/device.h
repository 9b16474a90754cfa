// Where a peer's worker trains: the CPU or one GPU, as `[worker] device` says.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace atolld {

struct GpuProbe {
  bool available;  // libtorch can use one
  int count;
};
GpuProbe ProbeGpus();

// libtorch's name of the device, "cpu" or "cuda:1", for "auto", "cpu", "cuda" or "cuda:N"; "auto"
// is the first GPU where there is one. FAILED_PRECONDITION: there is no such GPU. INVALID_ARGUMENT:
// another name.
absl::StatusOr<std::string> ResolveDevice(const std::string& name, const GpuProbe& gpus);

}  // namespace atolld
