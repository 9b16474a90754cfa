// Would break: whoever can dial the coordinator could crash it, or hold its run up, with bytes that
// are no message.
#include "tests/unit/daemon/garbage.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "atoll/v1/admin.pb.h"
#include "daemon/identity/authority.h"
#include "gtest/gtest.h"
#include "membership/trust/identity.h"
#include "tests/sim/sim_ends.h"
#include "tests/unit/daemon/coordinator/coordinator_world.h"

namespace atolld {
namespace {

constexpr char kSession[] = "/atolld.v1.Membership/Session";

v1::PeerMessage Hello() {
  v1::PeerMessage message;
  message.mutable_hello()->set_peer("x");
  message.mutable_hello()->set_numerics(1);
  message.mutable_hello()->set_run_id("r1");
  return message;
}

// A good request of each method that a coordinator serves.
std::map<std::string, std::unique_ptr<google::protobuf::MessageLite>> Requests() {
  std::map<std::string, std::unique_ptr<google::protobuf::MessageLite>> requests;
  const auto add = [&](const std::string& method, auto request) {
    requests["/atolld.v1." + method] = std::make_unique<decltype(request)>(std::move(request));
  };
  v1::CreateTokenRequest create;
  create.set_peer("zz");
  create.set_role("peer");
  create.set_valid_seconds(300);
  add("Admin/CreateToken", create);
  v1::DrainPeerRequest drain;
  drain.set_peer("zz");
  drain.set_reason("why");
  add("Admin/DrainPeer", drain);
  v1::EvictPeerRequest evict;
  evict.set_peer("zz");
  evict.set_undo(true);
  add("Admin/EvictPeer", evict);
  v1::ListHeadersRequest list;
  list.set_first_version(300);
  list.set_limit(300);
  add("Admin/ListHeaders", list);
  v1::ListAccountsRequest accounts;
  accounts.set_after("zz");
  add("Admin/ListAccounts", accounts);
  v1::IssueReceiptRequest receipt;
  receipt.set_peer("zz");
  add("Admin/IssueReceipt", receipt);
  v1::ListIdentitiesRequest identities;
  identities.set_after("zz");
  identities.set_limit(300);
  add("Admin/ListIdentities", identities);
  add("Admin/ListTokens", v1::ListTokensRequest());
  v1::PauseRunRequest pause;
  pause.set_reason("why");
  add("Admin/PauseRun", pause);
  add("Admin/ResumeRun", v1::ResumeRunRequest());
  v1::RevokeIdentityRequest stolen;
  stolen.set_identity("zz");
  stolen.set_reason("why");
  add("Admin/RevokeIdentity", stolen);
  v1::RevokeTokenRequest revoke;
  revoke.set_serial("zz");
  add("Admin/RevokeToken", revoke);
  add("Admin/ShowRun", v1::ShowRunRequest());
  v1::StopRunRequest stop;
  stop.set_reason("why");
  add("Admin/StopRun", stop);
  v1::WatchRunRequest watch;
  watch.set_interval_milliseconds(300);
  add("Admin/WatchRun", watch);
  add("Membership/Describe", v1::DescribeRequest());
  v1::EnrolRequest enrol;
  enrol.set_signing_request("zz");
  add("Membership/Enrol", enrol);
  v1::MeasureMessage measure;
  measure.set_up_bytes(1000);
  measure.set_down_bytes(1000);
  add("Membership/Measure", measure);
  add("Membership/Renew", enrol);
  add("Membership/Session", Hello());
  return requests;
}

constexpr char kMeasure[] = "/atolld.v1.Membership/Measure";

// A run of two, of many rounds, and strangers with certificates.
struct GarbageWorld : CoordinatorWorld {
  GarbageWorld() : CoordinatorWorld(2, 2, 100000) {
    config.limits.sessions_per_minute = 100000;
    world.AddProcess("coordinator", [this](Env env) {
      authority = Authority::Make("r1", env.executor.WallTime(), [this] {
                    return ++drawn * 0x9e3779b97f4a7c15u;
                  }).value();
      auto made = std::make_shared<Coordinator>(env, config, std::make_unique<MemoryStore>(disk),
                                                authority.get(), history_key);
      CHECK_OK(made->Start());
      return made;
    });
    for (const char* peer : {"a", "b"}) AddPeer(peer);
    for (const Role role : {Role::kAdmin, Role::kJoin, Role::kPeer}) {
      world.AddProcess(std::string(RoleName(role)));
      world.network().SetIdentity(std::string(RoleName(role)), {"r1", role, "x", "7"});
    }
  }

  // Says these things, one after another, and waits for the end of the call.
  std::unique_ptr<Reader> Say(const std::string& method, const std::vector<std::string>& frames) {
    Role role = Role::kPeer;
    for (const Role one : {Role::kAdmin, Role::kJoin}) {
      if (CheckAccess({"r1", one, "x", "7"}, method).ok()) role = one;
    }
    // A token that nobody made is refused there before its first word.
    if (method == kMeasure) role = Role::kPeer;
    auto reader = std::make_unique<Reader>();
    reader->Start(world.process(std::string(RoleName(role)))
                      .env()
                      .transport.Dial(config.coordinator.address, method, absl::Minutes(1)));
    for (const std::string& frame : frames) reader->call->Write({frame, SharedBytes()});
    world.RunUntil([&] { return !reader->closed.empty(); }, absl::Seconds(1));
    return reader;
  }

  void ExpectHealthy() {
    const auto shown = Say("/atolld.v1.Admin/ShowRun", {""});
    ASSERT_EQ(shown->closed.size(), 1u);
    EXPECT_TRUE(shown->closed[0].ok()) << shown->closed[0];
    ASSERT_TRUE(RunToVersion(committed() + 2)) << world.LogText();
    EXPECT_EQ(world.LogCount("peer a died") + world.LogCount("peer b died"), 0u);
  }

  uint64_t drawn = 0;
  std::unique_ptr<Authority> authority;
};

// Would break: a method that takes what cannot be read for an empty request, or crashes on it.
TEST(Garbage, NoMethodOfTheCoordinatorTakesIt) {
  GarbageWorld w;
  ASSERT_TRUE(w.RunToVersion(1));
  const auto requests = Requests();
  for (const std::string& method : MethodsWithRule()) {
    if (ServedBy(method) != Role::kCoordinator) continue;
    SCOPED_TRACE(method);
    ASSERT_EQ(requests.count(method), 1u);
    const google::protobuf::MessageLite& request = *requests.at(method);
    // Those are orders without a word too.
    const bool ends_the_run =
        method == "/atolld.v1.Admin/PauseRun" || method == "/atolld.v1.Admin/StopRun";
    for (const std::string& bytes : Garbage(request)) {
      const bool can_be_read = CanBeRead(request, bytes);
      if (can_be_read && ends_the_run) continue;
      const auto said = w.Say(method, {bytes});
      // Nobody asks for certificates more than once a second, nor measures a line much more often
      // than once a minute.
      w.world.RunFor(method == kMeasure ? absl::Minutes(1) : absl::Seconds(1));
      if (can_be_read) continue;
      ASSERT_EQ(said->closed.size(), 1u) << testing::PrintToString(bytes);
      EXPECT_TRUE(absl::IsInvalidArgument(said->closed[0]))
          << testing::PrintToString(bytes) << ": " << said->closed[0];
    }
    ASSERT_NO_FATAL_FAILURE(w.ExpectHealthy());
  }
}

// Would break: a member of the run could do after its Hello what no stranger may.
TEST(Garbage, ASessionEndsWithIt) {
  GarbageWorld w;
  ASSERT_TRUE(w.RunToVersion(1));
  for (const std::string& bytes : Garbage(Hello())) {
    const auto said = w.Say(kSession, {Hello().SerializeAsString(), bytes});
    if (CanBeRead(Hello(), bytes)) continue;
    ASSERT_EQ(said->closed.size(), 1u) << testing::PrintToString(bytes);
    EXPECT_TRUE(absl::IsInvalidArgument(said->closed[0]))
        << testing::PrintToString(bytes) << ": " << said->closed[0];
  }
  EXPECT_GT(w.world.LogCount("peer x joined"), 0u) << "its Hello was no good";
  w.ExpectHealthy();
}

}  // namespace
}  // namespace atolld
