// Who stands behind a certificate, and what its role may do.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace atolld {

// Identity: who stands behind a certificate - a role and a name within one cluster.
//
// It travels as the certificate's one URI, "atoll://CLUSTER/ROLE/NAME". The cluster is what shares
// one authority: a run, by default. Pure functions, any thread.

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
  // SHA-256 of its public key, likewise: the fingerprint that operators see.
  std::string key{};
};

std::string IdentityUri(const Identity& identity);
// INVALID_ARGUMENT: it is no such URI. Serial and key stay empty.
absl::StatusOr<Identity> ParseIdentityUri(absl::string_view uri);

// "peer peer-3", "admin operator": for logs and refusals.
std::string Describe(const Identity& identity);

// -----------------------------------------------------------------------------------------------
// Access: which role may call which method. The one table; both ends of every service go by it.
//
// Law: every method of every service in proto/ has a rule (a test walks the services), and what has
// none is served to nobody. Pure functions, any thread.

// `method` is the full name, "/atolld.v1.Membership/Session". PERMISSION_DENIED: not with this
// role. UNIMPLEMENTED: no such method.
absl::Status CheckAccess(const Identity& caller, absl::string_view method);

// The methods that have a rule, ascending.
std::vector<std::string> MethodsWithRule();

// Who serves a method's service: kCoordinator, or kPeer for what peers and aggregators serve. A
// dialler demands it of whoever answers.
Role ServedBy(absl::string_view method);

}  // namespace atolld
