// Checks and completes the libtorch that this process has loaded, if it comes from an installed
// wheel of PyTorch (cmake/AtollTorch.cmake). Any libtorch that is a system's library is complete,
// and the system's packages keep its version right; for it these functions do nothing.
//
// Both may be called from any thread.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace atolld {

// Fails with FAILED_PRECONDITION if the loaded libtorch has another version than the one that this
// program was built for, up to the minor version: libtorch's functions and classes change with
// each. A version that lacks a symbol which the loader binds at once never comes as far as this:
// the process ends with the loader's message.
absl::Status CheckTorchLibrary();

// Loads libtorch_cuda.so if this machine has NVIDIA's driver and PyTorch was built with CUDA. The
// program does not link it: it and CUDA's own libraries are some GB, which a peer without a GPU
// need neither load nor have. Must be called before libtorch is first asked for a GPU.
// Returns why it could not be loaded, and an empty text if it was or if there is nothing to load.
// Later calls return the same.
std::string LoadGpuLibrary();

}  // namespace atolld
