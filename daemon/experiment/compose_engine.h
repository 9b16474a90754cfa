// Finds the container engine of this machine for the command line: Docker with Compose v2 (`docker
// compose`) or with docker-compose 1.29.
//
// Its programs are looked for in PATH and are run as a user would run them. FindComposeEngine
// blocks.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace atolld {

// The image of the containers that `atoll experiment compose` writes.
inline constexpr char kContainerImage[] = "atoll:local";

// Returns the words that begin every command of the engine, such as "docker".
std::vector<std::string> EngineCommand();

// Returns the words that begin every command of Compose on this machine. Fails with UNAVAILABLE if
// no engine answers or if it has no Compose, and with NOT_FOUND if it has no image of Atoll; the
// message says what to do.
absl::StatusOr<std::vector<std::string>> FindComposeEngine();

}  // namespace atolld
