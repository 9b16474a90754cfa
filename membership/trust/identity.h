// Identity: who stands behind a certificate - a role and a name within one cluster.
//
// It travels as the certificate's one URI, "atoll://CLUSTER/ROLE/NAME". The cluster is what shares
// one authority: a run, by default. Pure functions, any thread.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace atolld {

enum class Role {
  kJoin,  // holds a token, and may do nothing but enrol with it
  kPeer,
  kAggregator,
  kAdmin,
  kCoordinator,
};
absl::string_view RoleName(Role role);  // "join", "peer", ...
// INVALID_ARGUMENT names the roles.
absl::StatusOr<Role> ParseRole(absl::string_view name);

struct Identity {
  std::string cluster;  // like every name: 1-64 characters of [a-z0-9-]
  Role role = Role::kJoin;
  std::string id;
  // Of the certificate: lower-case hexadecimal. No part of the URI; empty where there is none.
  std::string serial;
};

std::string IdentityUri(const Identity& identity);
// INVALID_ARGUMENT: it is no such URI. The serial stays empty.
absl::StatusOr<Identity> ParseIdentityUri(absl::string_view uri);

// "peer peer-3", "admin operator": for logs and refusals.
std::string Describe(const Identity& identity);

}  // namespace atolld
