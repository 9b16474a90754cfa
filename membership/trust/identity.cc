#include "membership/trust/identity.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "compression/base/names.h"

namespace atolld {
namespace {

constexpr absl::string_view kScheme = "atoll://";
constexpr Role kRoles[] = {Role::kJoin, Role::kPeer, Role::kAggregator, Role::kAdmin,
                           Role::kCoordinator};

}  // namespace

absl::string_view RoleName(Role role) {
  switch (role) {
    case Role::kJoin:
      return "join";
    case Role::kPeer:
      return "peer";
    case Role::kAggregator:
      return "aggregator";
    case Role::kAdmin:
      return "admin";
    case Role::kCoordinator:
      return "coordinator";
  }
  return "";
}

absl::StatusOr<Role> ParseRole(absl::string_view name) {
  for (const Role role : kRoles) {
    if (name == RoleName(role)) return role;
  }
  return absl::InvalidArgumentError("a role is one of join, peer, aggregator, admin, coordinator");
}

std::string IdentityUri(const Identity& identity) {
  return absl::StrCat(kScheme, identity.cluster, "/", RoleName(identity.role), "/", identity.id);
}

absl::StatusOr<Identity> ParseIdentityUri(absl::string_view uri) {
  const absl::Status wrong =
      absl::InvalidArgumentError("an identity is of the form atoll://CLUSTER/ROLE/NAME");
  if (!absl::ConsumePrefix(&uri, kScheme)) return wrong;
  const std::vector<absl::string_view> parts = absl::StrSplit(uri, '/');
  if (parts.size() != 3 || !IsValidId(parts[0]) || !IsValidId(parts[2])) return wrong;
  const absl::StatusOr<Role> role = ParseRole(parts[1]);
  if (!role.ok()) return role.status();
  Identity identity;
  identity.cluster = std::string(parts[0]);
  identity.role = *role;
  identity.id = std::string(parts[2]);
  return identity;
}

std::string Describe(const Identity& identity) {
  return absl::StrCat(RoleName(identity.role), " ", identity.id);
}

}  // namespace atolld
