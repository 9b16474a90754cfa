// The key that a peer signs its contributions with: a file in its folder, its owner's alone.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "daemon/env/env.h"
#include "membership/history/signing_key.h"

namespace atolld {

// Made at the first start, of the environment's randomness. Blocking. Errors as LoadSigningKey's.
absl::StatusOr<SigningKey> OwnSigningKey(Env env, const std::string& dir);

}  // namespace atolld
