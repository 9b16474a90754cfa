#include "worker/training/torch_library.h"

#include <dlfcn.h>

#include <cstdint>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "worker/kernels/torch_version.h"

namespace atolld {

#ifdef ATOLL_TORCH_WHEEL

absl::Status CheckTorchLibrary() {
  // Major, minor and patch, a byte each from the highest on; versions from 2.7 on have it.
  const auto version =
      reinterpret_cast<uint64_t (*)()>(::dlsym(RTLD_DEFAULT, "aoti_torch_abi_version"));
  if (version == nullptr) return absl::OkStatus();
  const uint64_t major = version() >> 56, minor = version() >> 48 & 0xff;
  if (major == TORCH_VERSION_MAJOR && minor == TORCH_VERSION_MINOR) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("this program was built for PyTorch ", kTorchVersion, " and has found PyTorch ",
                   major, ".", minor, "; pip install \"torch==", TORCH_VERSION_MAJOR, ".",
                   TORCH_VERSION_MINOR, ".*\" brings the right one"));
}

std::string LoadGpuLibrary() {
  static const std::string trouble = []() -> std::string {
    if (::dlopen("libcuda.so.1", RTLD_LAZY) == nullptr) return "";
    if (::dlopen("libtorch_cuda.so", RTLD_LAZY | RTLD_GLOBAL) != nullptr) return "";
    const char* const error = ::dlerror();
    // PyTorch for CPUs has no such file; otherwise the error names the one that is missing.
    return error == nullptr || absl::StartsWith(error, "libtorch_cuda.so:") ? "" : error;
  }();
  return trouble;
}

#else

absl::Status CheckTorchLibrary() { return absl::OkStatus(); }

std::string LoadGpuLibrary() { return ""; }

#endif

}  // namespace atolld
