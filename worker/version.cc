#include "worker/version.h"

#include "worker/torch_version.h"

namespace atolld {

std::string TorchVersion() { return kTorchVersion; }

std::string SoftwareVersion() {
  return "atoll-worker " ATOLL_VERSION ", libtorch " + TorchVersion();
}

}  // namespace atolld
