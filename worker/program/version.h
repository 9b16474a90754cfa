// What this program and the libtorch under it call themselves.
#pragma once

#include <string>

namespace atolld {

std::string TorchVersion();     // "1.13.1"
std::string SoftwareVersion();  // "atoll-worker 0.1.0, libtorch 1.13.1"

}  // namespace atolld
