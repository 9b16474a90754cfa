// The identity in a certificate (Identity), and what each role may do (CheckAccess).
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace atolld {

// Identity: the holder of a certificate: a role and a name within one cluster.
//
// A certificate has the identity as its only URI, "atoll://CLUSTER/ROLE/NAME". A cluster consists
// of everything with certificates from the same authority; by default, this is a run. Pure. May be
// called from any thread.

enum class Role {
  kJoin,  // the holder of a token, which may only enrol with it
  kPeer,
  kAggregator,
  kAdmin,
  kCoordinator,
};
absl::string_view RoleName(Role role);  // for example "join" or "peer"
// Fails with INVALID_ARGUMENT if there is no such role; the message lists the roles.
absl::StatusOr<Role> ParseRole(absl::string_view name);

struct Identity {
  std::string cluster;  // 1-64 characters of [a-z0-9-], like every name
  Role role = Role::kJoin;
  std::string id;
  // The certificate's serial in lower-case hexadecimal; empty if there is none. It is not part of
  // the URI.
  std::string serial;
  // The SHA-256 of the certificate's public key, also in lower-case hexadecimal: the fingerprint
  // that operators see.
  std::string key{};
};

std::string IdentityUri(const Identity& identity);
// Fails with INVALID_ARGUMENT if this is not such a URI. Leaves serial and key empty.
absl::StatusOr<Identity> ParseIdentityUri(absl::string_view uri);

// Returns text such as "peer peer-3" or "admin operator", for logs and refusals.
std::string Describe(const Identity& identity);

// -----------------------------------------------------------------------------------------------
// Access: the table of which role may call which method. Both ends of every service use this table.
//
// Law: every method of every service in proto/ has a rule (a test walks the services). A method
// without a rule cannot be called. Pure. May be called from any thread.

// `method` is the full name, "/atolld.v1.Membership/Session". Fails with PERMISSION_DENIED if the
// role may not call it, and with UNIMPLEMENTED if there is no such method.
absl::Status CheckAccess(const Identity& caller, absl::string_view method);

// Returns the methods that have a rule, ascending.
std::vector<std::string> MethodsWithRule();

// Returns the role that a server of this method must have: kCoordinator, or kPeer if peers and
// aggregators serve it. A client checks that its server has this role.
Role ServedBy(absl::string_view method);

}  // namespace atolld
