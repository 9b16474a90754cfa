// The container engine of this machine, as the command line knows it: Docker with Compose v2
// (`docker compose`) or docker-compose 1.29.
//
// Its programs are looked for in PATH and run as anybody would run them. Blocking.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace atolld {

// Of the containers that `atoll experiment compose` writes.
inline constexpr char kContainerImage[] = "atoll:local";

// What a command of the engine itself begins with.
std::vector<std::string> EngineCommand();

// What `docker compose` is called by here, with which any of its commands begins. UNAVAILABLE: no
// engine answers, or it has no Compose. NOT_FOUND: it has no image of Atoll. Each says what to do.
absl::StatusOr<std::vector<std::string>> FindComposeEngine();

}  // namespace atolld
