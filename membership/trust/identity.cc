#include "membership/trust/identity.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "compression/base/names.h"

namespace atolld {
namespace {

constexpr absl::string_view kScheme = "atoll://";
constexpr Role kRoles[] = {Role::kJoin, Role::kPeer, Role::kAggregator, Role::kAdmin,
                           Role::kCoordinator};

constexpr unsigned Bit(Role role) { return 1u << static_cast<unsigned>(role); }

constexpr unsigned kNobody = 0;
constexpr unsigned kJoiner = Bit(Role::kJoin);
constexpr unsigned kMember = Bit(Role::kPeer) | Bit(Role::kAggregator);
constexpr unsigned kAdmin = Bit(Role::kAdmin);
constexpr unsigned kProbe = Bit(Role::kCoordinator);

struct Rule {
  absl::string_view method;
  unsigned roles;
};

// Sorted by method.
constexpr Rule kRules[] = {
    {"/atolld.v1.Admin/CreateToken", kAdmin},
    {"/atolld.v1.Admin/DrainPeer", kAdmin},
    {"/atolld.v1.Admin/EvictPeer", kAdmin},
    {"/atolld.v1.Admin/IssueReceipt", kAdmin},
    {"/atolld.v1.Admin/ListAccounts", kAdmin},
    {"/atolld.v1.Admin/ListHeaders", kAdmin},
    {"/atolld.v1.Admin/ListIdentities", kAdmin},
    {"/atolld.v1.Admin/ListTokens", kAdmin},
    {"/atolld.v1.Admin/PauseRun", kAdmin},
    {"/atolld.v1.Admin/ResumeRun", kAdmin},
    {"/atolld.v1.Admin/RevokeIdentity", kAdmin},
    {"/atolld.v1.Admin/RevokeToken", kAdmin},
    {"/atolld.v1.Admin/ShowRun", kAdmin},
    {"/atolld.v1.Admin/StopRun", kAdmin},
    {"/atolld.v1.Admin/WatchRun", kAdmin},
    {"/atolld.v1.Exchange/Exchange", kMember},
    {"/atolld.v1.Exchange/Inputs", kMember},
    {"/atolld.v1.Exchange/Wake", kMember},
    // Served only over a Unix-domain socket that its owner alone can use, like the worker's; never
    // over a network.
    {"/atolld.v1.Machine/FinishRound", kNobody},
    {"/atolld.v1.Machine/Pause", kNobody},
    {"/atolld.v1.Machine/Resume", kNobody},
    {"/atolld.v1.Machine/SetLimits", kNobody},
    {"/atolld.v1.Machine/Show", kNobody},
    {"/atolld.v1.Membership/Describe", kJoiner},
    {"/atolld.v1.Membership/Enrol", kJoiner},
    {"/atolld.v1.Membership/Measure", kJoiner | kMember},
    {"/atolld.v1.Membership/Renew", kMember},
    {"/atolld.v1.Membership/Session", kMember},
    // An administrator owns what the run has learned, and may fetch it. The coordinator dials a
    // suspect to see whether anything listens there, and asks nothing.
    {"/atolld.v1.Replica/FetchEntries", kMember | kAdmin | kProbe},
    {"/atolld.v1.Replica/FetchSnapshot", kMember | kAdmin},
    {"/atolld.v1.Replica/GiveEntries", kMember},
    {"/atolld.v1.Replica/GiveSnapshot", kMember},
    // Served only over a Unix-domain socket that its owner alone can use; never over a network.
    {"/atolld.v1.Worker/Attach", kNobody},
    // Tells only whether a process serves.
    {"/grpc.health.v1.Health/Check", kMember | kAdmin | kProbe},
    {"/grpc.health.v1.Health/Watch", kMember | kAdmin | kProbe},
};

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
      absl::InvalidArgumentError("an identity has the form atoll://CLUSTER/ROLE/NAME");
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

absl::Status CheckAccess(const Identity& caller, absl::string_view method) {
  const Rule* const rule = std::find_if(std::begin(kRules), std::end(kRules),
                                        [&](const Rule& one) { return one.method == method; });
  if (rule == std::end(kRules)) {
    return absl::UnimplementedError(absl::StrCat(method, " is not served here"));
  }
  if ((rule->roles & Bit(caller.role)) != 0) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat("the role ", RoleName(caller.role), " may not call ", method));
}

std::vector<std::string> MethodsWithRule() {
  std::vector<std::string> methods;
  for (const Rule& rule : kRules) methods.emplace_back(rule.method);
  return methods;
}

Role ServedBy(absl::string_view method) {
  const bool coordinator = absl::StartsWith(method, "/atolld.v1.Membership/") ||
                           absl::StartsWith(method, "/atolld.v1.Admin/");
  return coordinator ? Role::kCoordinator : Role::kPeer;
}

}  // namespace atolld
