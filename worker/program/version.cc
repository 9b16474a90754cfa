#include "worker/program/version.h"

#include "worker/model/torch_version.h"

namespace atolld {

std::string TorchVersion() { return kTorchVersion; }

std::string SoftwareVersion() {
  return "atoll-worker " ATOLL_VERSION ", libtorch " + TorchVersion();
}

}  // namespace atolld
