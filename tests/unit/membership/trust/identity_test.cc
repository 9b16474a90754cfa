// Would break: an RPC that nobody thought of when it was added, and that any certificate may call.
#include "membership/trust/identity.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "atoll/v1/admin.pb.h"
#include "atoll/v1/exchange.pb.h"
#include "atoll/v1/machine.pb.h"
#include "atoll/v1/membership.pb.h"
#include "atoll/v1/replica.pb.h"
#include "atoll/v1/run.pb.h"
#include "atoll/v1/worker.pb.h"
#include "gtest/gtest.h"

namespace atolld {
namespace {

constexpr Role kRoles[] = {Role::kJoin, Role::kPeer, Role::kAggregator, Role::kAdmin,
                           Role::kCoordinator};

// Every method of every service in proto/.
std::set<std::string> Methods() {
  std::set<std::string> methods;
  for (const google::protobuf::FileDescriptor* file :
       {v1::RunStatus::descriptor()->file(), v1::ToReducer::descriptor()->file(),
        v1::Hello::descriptor()->file(), v1::EntryBlock::descriptor()->file(),
        v1::RunSpec::descriptor()->file(), v1::WorkerHello::descriptor()->file(),
        v1::MachineStatus::descriptor()->file()}) {
    for (int i = 0; i < file->service_count(); ++i) {
      const google::protobuf::ServiceDescriptor* const service = file->service(i);
      for (int k = 0; k < service->method_count(); ++k) {
        methods.insert(absl::StrCat("/", service->full_name(), "/", service->method(k)->name()));
      }
    }
  }
  return methods;
}

absl::Status Check(Role role, const std::string& method) {
  return CheckAccess(Identity{"run", role, "a", "1"}, method);
}

TEST(Access, EveryMethodHasARuleAndNothingElse) {
  const std::vector<std::string> ruled = MethodsWithRule();
  EXPECT_TRUE(std::is_sorted(ruled.begin(), ruled.end()));
  std::set<std::string> methods = Methods();
  // gRPC's own, of proto/grpc/health/v1.
  methods.insert({"/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch"});
  EXPECT_EQ(methods, std::set<std::string>(ruled.begin(), ruled.end()));
  EXPECT_GE(ruled.size(), 15u);
}

TEST(Access, RolesDoWhatTheyAreFor) {
  for (const std::string& method : MethodsWithRule()) {
    std::set<Role> allowed;
    for (const Role role : kRoles) {
      const absl::Status status = Check(role, method);
      if (status.ok()) allowed.insert(role);
      EXPECT_TRUE(status.ok() || absl::IsPermissionDenied(status)) << method;
    }
    std::set<Role> expected = {Role::kPeer, Role::kAggregator};
    if (method.find(".Admin/") != std::string::npos) expected = {Role::kAdmin};
    if (method == "/atolld.v1.Membership/Describe") expected = {Role::kJoin};
    if (method == "/atolld.v1.Membership/Enrol") expected = {Role::kJoin};
    if (method == "/atolld.v1.Membership/Measure") expected.insert(Role::kJoin);
    if (method.find(".Worker/") != std::string::npos) expected = {};
    if (method.find(".Machine/") != std::string::npos) expected = {};
    if (method == "/atolld.v1.Replica/FetchEntries") expected.insert(Role::kCoordinator);
    if (method.find("/Fetch") != std::string::npos) expected.insert(Role::kAdmin);
    if (method.find(".Health/") != std::string::npos) {
      expected.insert({Role::kAdmin, Role::kCoordinator});
    }
    EXPECT_EQ(expected, allowed) << method;
  }
}

TEST(Access, AnUnknownMethodIsServedToNobody) {
  for (const Role role : kRoles) {
    for (const char* method : {"", "/", "/atolld.v1.Admin/", "/atolld.v1.Admin/ShowRun/",
                               "/atolld.v1.Admin/showrun", "/other.Service/Method"}) {
      EXPECT_TRUE(absl::IsUnimplemented(Check(role, method))) << method;
    }
  }
}

TEST(Access, WhoServesWhat) {
  for (const std::string& method : MethodsWithRule()) {
    const bool coordinator = method.find(".Admin/") != std::string::npos ||
                             method.find(".Membership/") != std::string::npos;
    EXPECT_EQ(coordinator ? Role::kCoordinator : Role::kPeer, ServedBy(method)) << method;
  }
}

TEST(Identity, UriRoundTripAndRefusals) {
  for (const Role role : kRoles) {
    const Identity identity{"run-1", role, "p-3", ""};
    const auto parsed = ParseIdentityUri(IdentityUri(identity));
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(identity.cluster, parsed->cluster);
    EXPECT_EQ(role, parsed->role);
    EXPECT_EQ(identity.id, parsed->id);
  }
  EXPECT_EQ("atoll://run-1/peer/p-3", IdentityUri({"run-1", Role::kPeer, "p-3", ""}));
  for (const char* bad :
       {"", "atoll://", "atoll://run/peer", "atoll://run/peer/", "atoll://run/king/p",
        "atoll://run/peer/p/q", "atoll://run/peer/P", "http://run/peer/p", "atoll://run/peer/p ",
        "atoll:///peer/p", "atoll://run//p", "ATOLL://run/peer/p"}) {
    EXPECT_FALSE(ParseIdentityUri(bad).ok()) << bad;
  }
}

}  // namespace
}  // namespace atolld
