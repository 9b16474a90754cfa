// A signing key's file: PEM, its owner's alone.
//
// Whoever reads it can sign in its owner's name. Before a loop runs, or on the pool.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "daemon/env/env.h"
#include "membership/history/signing_key.h"

namespace atolld {

// NOT_FOUND: there is no such file. FAILED_PRECONDITION: others may read it. INVALID_ARGUMENT: it
// holds no Ed25519 key.
absl::StatusOr<SigningKey> LoadSigningKey(Files& files, const std::string& path);

// The same; a fresh one is made and durable there if there is no such file. Its folder is made too.
absl::StatusOr<SigningKey> EnsureSigningKey(Files& files, const std::string& path);

}  // namespace atolld
