// How a verb finds the coordinator: by its address, or by the folder of a local run.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "absl/status/statusor.h"

namespace atolld {

struct CoordinatorAddress {
  std::string address = "127.0.0.1:7070";
  std::string dir;  // of a local run; empty: `address` holds
};

// --coordinator and --dir, which exclude each other.
void AddCoordinatorOptions(CLI::App& verb, CoordinatorAddress& address,
                           const std::string& dir_meaning);

// The address to dial. NOT_FOUND if the folder holds no local run.
absl::StatusOr<std::string> ResolveCoordinator(const CoordinatorAddress& address);

}  // namespace atolld
