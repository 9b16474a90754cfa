// Would break: whoever keeps a process running, by gRPC's health protocol, would take one that
// serves for dead, one whose loop hangs for well, or anybody could ask.
#include "daemon/transport/health_service.h"

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "compression/base/check.h"
#include "daemon/env/posix_executor.h"
#include "daemon/transport/grpc_transport.h"
#include "gmock/gmock.h"
#include "tests/unit/daemon/transport/test_authority.h"
#include "tests/unit/daemon/transport/transport_contract.h"

namespace atolld {
namespace {

constexpr absl::Duration kHealthLimit = absl::Seconds(60);

Frame HealthBytes(std::string bytes) {
  Frame frame;
  frame.message = std::move(bytes);
  return frame;
}

class HealthTest : public ::testing::Test {
 protected:
  HealthTest() : server_(executor_, OptionsFor("server", Role::kPeer)) {
    auto listener = server_.Listen(
        "127.0.0.1:0",
        [this](const std::string& method, std::unique_ptr<Call>) { others_.push_back(method); });
    CHECK_OK(listener.status());
    listener_ = *std::move(listener);
  }

  GrpcTransport::Options OptionsFor(const std::string& id, Role role) {
    GrpcTransport::Options options;
    options.failure_timeout = absl::Seconds(5);
    options.tls = MakeTlsCredentials(certificates_.Folder(id, role));
    return options;
  }

  // What `atoll health` would say; it blocks, so the loop runs meanwhile.
  absl::Status Ask(Role as, Role of, absl::Duration patience = absl::Seconds(20)) {
    const std::string folder = certificates_.Folder("caller", as);
    absl::Status answer;
    bool done = false;
    executor_.Offload([&] { answer = CheckHealth(listener_->address(), of, folder, patience); },
                      [&] { done = true; });
    CHECK(executor_.RunUntil([&] { return done; }, kHealthLimit));
    return answer;
  }

  TestAuthority certificates_;
  PosixExecutor executor_{PosixExecutor::Options()};
  GrpcTransport server_;
  std::unique_ptr<Listener> listener_;
  std::vector<std::string> others_;
};

TEST_F(HealthTest, IsAnsweredByTheLoopToWhoBelongsToTheRun) {
  EXPECT_TRUE(Ask(Role::kPeer, Role::kPeer).ok());
  EXPECT_TRUE(Ask(Role::kAdmin, Role::kPeer).ok());
  EXPECT_TRUE(absl::IsPermissionDenied(Ask(Role::kJoin, Role::kPeer)));
  EXPECT_TRUE(absl::IsUnavailable(Ask(Role::kPeer, Role::kCoordinator))) << "it is a peer";
  EXPECT_THAT(others_, ::testing::IsEmpty());
}

TEST_F(HealthTest, ALoopThatHangsDoesNotServe) {
  const std::string folder = certificates_.Folder("caller", Role::kPeer);
  // Nobody runs the loop: gRPC's threads take the connection all the same.
  const absl::Status answer =
      CheckHealth(listener_->address(), Role::kPeer, folder, absl::Milliseconds(300));
  EXPECT_TRUE(absl::IsUnavailable(answer)) << answer;
}

TEST_F(HealthTest, OnlyTheWholeServerHasAHealth) {
  GrpcTransport client(executor_, OptionsFor("caller", Role::kPeer));
  Endpoint check;
  check.Take(client.Dial(listener_->address(), "/grpc.health.v1.Health/Check", kHealthLimit));
  check.Start(true);
  check.call().Write(HealthBytes("\x0a\x03one"));  // service "one"
  Endpoint watch;
  watch.Take(client.Dial(listener_->address(), "/grpc.health.v1.Health/Watch", kHealthLimit));
  watch.Start(true);
  watch.call().Write(HealthBytes("\x0a\x03one"));
  ASSERT_TRUE(
      executor_.RunUntil([&] { return check.closed && !watch.frames.empty(); }, kHealthLimit));
  EXPECT_TRUE(absl::IsNotFound(check.status)) << check.status;
  EXPECT_EQ(watch.frames[0].message, "\x08\x03");  // SERVICE_UNKNOWN
  EXPECT_FALSE(watch.closed) << "whoever watches is told when it changes";
}

}  // namespace
}  // namespace atolld
