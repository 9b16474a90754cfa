// How a verb finds the coordinator: by its address, or by the folder of a local run.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "daemon/cli/verb.h"
#include "daemon/transport/admin_client.h"

namespace atolld {

struct CoordinatorAddress {
  std::string address = "127.0.0.1:7070";
  std::string dir;       // of a local run; empty: `address` holds
  std::string identity;  // folder of the administrator's credentials, with an address
  bool plaintext = false;
};

// --coordinator and --dir, which exclude each other; with the former --identity or --plaintext.
void AddCoordinatorOptions(const Verb& verb, CoordinatorAddress& address,
                           const std::string& dir_meaning);

// Whom to dial, and as whom. NOT_FOUND: the folder holds no local run. INVALID_ARGUMENT: it is not
// said as whom. Else what is wrong with the credentials.
absl::StatusOr<CoordinatorAccess> ResolveCoordinator(const CoordinatorAddress& address);

}  // namespace atolld
