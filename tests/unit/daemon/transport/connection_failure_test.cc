// Would break: whoever cannot reach a coordinator or a peer is not told which of a wrong address, a
// closed port, a firewall, and another run it was.
#include "daemon/transport/connection_failure.h"

#include <netdb.h>
#include <sys/socket.h>

#include <cerrno>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "daemon/env/posix_executor.h"
#include "daemon/transport/coordinator_client.h"
#include "daemon/transport/grpc_transport.h"
#include "daemon/transport/server_probe.h"
#include "daemon/transport/sockets.h"
#include "gmock/gmock.h"
#include "tests/unit/daemon/transport/test_authority.h"
#include "tests/unit/daemon/transport/transport_contract.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr absl::Duration kPatience = absl::Seconds(20);

std::string Words(const absl::Status& status) { return std::string(status.message()); }

// Nobody listens there any more.
std::string ClosedPort() {
  const auto listeners = ListenTcp("127.0.0.1:0");
  CHECK_OK(listeners.status());
  return absl::StrCat("127.0.0.1:", listeners->port);
}

TEST(ConnectionFailure, TheKernelsErrorsAreOfAKind) {
  EXPECT_EQ("connection refused: nothing listens there", Words(ConnectionErrorOf(ECONNREFUSED)));
  EXPECT_EQ("unreachable: No route to host", Words(ConnectionErrorOf(EHOSTUNREACH)));
  EXPECT_EQ("unreachable: Network is unreachable", Words(ConnectionErrorOf(ENETUNREACH)));
  EXPECT_THAT(Words(ConnectionErrorOf(ETIMEDOUT)), StartsWith("timed out: "));
  EXPECT_EQ("timed out: no answer in 5s", Words(ConnectionTimedOut(absl::Seconds(5))));
}

TEST(ConnectionFailure, GrpcsLinesAreOfAKind) {
  const std::string failed = "failed to connect to all addresses; last error: UNKNOWN: ipv4:h:1: ";
  const struct {
    std::string line;
    std::string words;
  } cases[] = {
      {"DNS resolution failed for h:1: C-ares status is not ARES_SUCCESS qtype=A name=h "
       "is_balancer=0: Domain name not found",
       "name not found: Domain name not found"},
      {failed + "Failed to connect to remote host: Connection refused",
       "connection refused: nothing listens there"},
      {failed + "Network is unreachable", "unreachable: Network is unreachable"},
      {failed + "Handshake timed out",
       "handshake stalled: connected, but the TLS handshake got no answer; what accepts there is "
       "stopped or very busy, or packets above some size are lost on the way (MTU?)"},
      {failed + "Failed to connect to remote host: No route to host",
       "unreachable: No route to host"},
      {failed + "Failed to connect to remote host: Connection timed out", "timed out: no answer"},
      {failed + "Tls handshake failed: SSL_ERROR_SSL: error:0A00010B:SSL routines::wrong version "
                "number",
       "wrong protocol: what answers there speaks no TLS"},
      {failed + "Custom verification check failed with error: UNAUTHENTICATED: peer b should be "
                "there, and it is peer c",
       "wrong certificate: peer b should be there, and it is peer c"}};
  for (const auto& one : cases) {
    const auto error = ConnectionErrorOf(one.line);
    ASSERT_TRUE(error.has_value()) << one.line;
    EXPECT_EQ(one.words, Words(*error));
  }
  // Only a look at the other end tells more; a server's own words are no failed connection.
  const std::string verify = failed + "Tls handshake failed: certificate verify failed";
  EXPECT_FALSE(ConnectionErrorOf(verify).has_value());
  EXPECT_TRUE(MayBeHandshake(verify));
  EXPECT_TRUE(MayBeHandshake(failed + "Handshake read failed"));
  EXPECT_FALSE(ConnectionErrorOf("this peer follows no run yet").has_value());
  EXPECT_FALSE(MayBeHandshake("this peer follows no run yet"));
}

// The lines above are those of one release of gRPC: this one's are asked for too.
TEST(ConnectionFailure, ACallSaysWhyItsConnectionWasNotMade) {
  PosixExecutor executor{PosixExecutor::Options()};
  GrpcTransport::Options options;
  options.failure_timeout = absl::Seconds(5);
  GrpcTransport transport(executor, options);
  const std::string closed = ClosedPort();
  const struct {
    std::string address;
    std::string words;
  } cases[] = {{closed, closed + ": connection refused: nothing listens there"},
               {"no-such-name.invalid:1", "no-such-name.invalid:1: name not found: "}};
  for (const auto& one : cases) {
    Endpoint end;
    end.Take(transport.Dial(one.address, "/atolld.v1.Membership/Session", absl::Seconds(50)));
    end.Start(true);
    ASSERT_TRUE(executor.RunUntil([&] { return end.closed; }, absl::Seconds(60)));
    EXPECT_TRUE(absl::IsUnavailable(end.status)) << end.status;
    EXPECT_THAT(Words(end.status), StartsWith(one.words));
  }
}

// -----------------------------------------------------------------------------------------------

class ServerProbeTest : public ::testing::Test {
 protected:
  std::string Serve(const std::string& folder) {
    GrpcTransport::Options options;
    options.failure_timeout = absl::Seconds(5);
    if (!folder.empty()) options.tls = MakeTlsCredentials(folder);
    server_ = std::make_unique<GrpcTransport>(executor_, options);
    auto listener =
        server_->Listen("127.0.0.1:0", [](const std::string&, std::unique_ptr<Call>) {});
    CHECK_OK(listener.status());
    listener_ = *std::move(listener);
    return listener_->address();
  }
  absl::Status Probe(Role role, const std::string& folder, const std::string& peer = "") {
    return ProbeServerWith({listener_->address(), role, peer, std::nullopt}, folder, kPatience);
  }

  TestAuthority certificates_;
  TestAuthority foreign_{"foreign"};
  PosixExecutor executor_{PosixExecutor::Options()};
  std::unique_ptr<GrpcTransport> server_;
  std::unique_ptr<Listener> listener_;
};

TEST_F(ServerProbeTest, TakesWhoItShouldBe) {
  const std::string caller = certificates_.Folder("caller", Role::kPeer);
  Serve(certificates_.Folder("c", Role::kCoordinator));
  EXPECT_TRUE(Probe(Role::kCoordinator, caller).ok()) << Probe(Role::kCoordinator, caller);
  EXPECT_THAT(Words(Probe(Role::kPeer, caller)),
              StartsWith("wrong certificate: a peer should be there, and it is coordinator c"));
  listener_.reset();
  Serve(certificates_.Folder("p", Role::kPeer));
  EXPECT_TRUE(Probe(Role::kPeer, caller, "p").ok());
  EXPECT_THAT(Words(Probe(Role::kPeer, caller, "q")),
              HasSubstr("wrong certificate: peer q should be there, and it is peer p"));
}

TEST_F(ServerProbeTest, TellsAnotherRunFromAnExpiredCertificate) {
  const absl::Duration day = absl::Hours(24);
  const std::string caller = certificates_.Folder("caller", Role::kPeer);
  Serve(foreign_.Folder("c", Role::kCoordinator));
  const absl::Status other = Probe(Role::kCoordinator, caller);
  EXPECT_TRUE(absl::IsFailedPrecondition(other));
  EXPECT_EQ(
      "wrong run: coordinator c of run foreign answers there, and this side's certificate is of "
      "run contract",
      Words(other));
  AdminClient client({listener_->address(), certificates_.Folder("admin", Role::kAdmin)});
  const absl::Status asked = client.ShowRun(0, 1).status();
  EXPECT_TRUE(absl::IsUnavailable(asked));
  EXPECT_THAT(Words(asked), HasSubstr(listener_->address() + ": wrong run: "));
  listener_.reset();

  Serve(certificates_.Folder("c", Role::kCoordinator, 100 * day, 90 * day));
  EXPECT_THAT(Words(Probe(Role::kCoordinator, caller)),
              StartsWith("wrong certificate: the certificate of coordinator c has expired"));
  listener_.reset();

  Serve(certificates_.Folder("c", Role::kCoordinator));
  EXPECT_THAT(Words(Probe(Role::kCoordinator,
                          certificates_.Folder("old", Role::kPeer, 100 * day, 90 * day))),
              AllOf(StartsWith("wrong certificate: "), HasSubstr("has expired")));
}

TEST_F(ServerProbeTest, TellsWhoDoesNotSpeakTls) {
  const std::string caller = certificates_.Folder("caller", Role::kPeer);
  const std::string address = Serve("");
  EXPECT_EQ("wrong protocol: what answers there speaks no TLS",
            Words(Probe(Role::kCoordinator, caller)));
  listener_.reset();
  EXPECT_EQ(
      "connection refused: nothing listens there",
      Words(ProbeServerWith({address, Role::kCoordinator, "", std::nullopt}, caller, kPatience)));
  // One that accepts and says nothing is not waited for longer than that.
  const auto silent = ListenTcp("127.0.0.1:0");
  ASSERT_TRUE(silent.ok());
  EXPECT_THAT(
      Words(ProbeServerWith(
          {absl::StrCat("127.0.0.1:", silent->port), Role::kCoordinator, "", std::nullopt}, caller,
          absl::Milliseconds(50))),
      AllOf(StartsWith("handshake stalled: connected, but the TLS handshake got no answer in 50ms"),
            HasSubstr("(MTU?)")));
  // Plain text to one that wants certificates.
  AdminClient client({Serve(certificates_.Folder("c", Role::kCoordinator)), ""});
  EXPECT_THAT(Words(client.ShowRun(0, 1).status()), HasSubstr("wrong protocol"));
}

// -----------------------------------------------------------------------------------------------

TEST(AddressReach, LooksNamesUp) {
  EXPECT_EQ(AddressReach::kWildcard, ReachOf("0.0.0.0:7070"));
  EXPECT_EQ(AddressReach::kWildcard, ReachOf("[::]:7070"));
  EXPECT_EQ(AddressReach::kWildcard, ReachOf("*:7070"));
  EXPECT_EQ(AddressReach::kThisMachine, ReachOf("127.0.1.1:7070"));
  EXPECT_EQ(AddressReach::kThisMachine, ReachOf("[::1]:7070"));
  EXPECT_EQ(AddressReach::kThisMachine, ReachOf("localhost:7070"));
  EXPECT_EQ(AddressReach::kThisMachine, ReachOf("unix:/run/atoll"));
  EXPECT_EQ(AddressReach::kBeyond, ReachOf("192.0.2.7:7070"));
  EXPECT_EQ(AddressReach::kUnknown, ReachOf("no-such-name.invalid:7070"));
}

// The most common mistake of whoever rents a machine: its public address is not its own.
TEST(Listening, SaysThatAnAddressIsNotThisMachines) {
  EXPECT_EQ(
      "cannot listen on 192.0.2.77:7070: it is not an address of this machine; 0.0.0.0 is all that "
      "it "
      "has",
      Words(ListenTcp("192.0.2.77:7070").status()));
}

// Would break: a daemon that dials some addresses that a firewall drops spends its pool's threads
// on finding out why, and neither stores nor averages anything meanwhile.
TEST(Looks, OneIsTakenAtATime) {
  Looks looks;
  int taken = 0;
  const absl::Status found = looks.Take("a:1", [&] {
    ++taken;
    const absl::Status other = looks.Take("b:1", [&] {
      ++taken;
      return absl::UnavailableError("b");
    });
    EXPECT_TRUE(other.ok()) << "nothing is known of it";
    return absl::UnavailableError("a");
  });
  EXPECT_EQ(found.message(), "a");
  EXPECT_EQ(taken, 1);
  EXPECT_EQ(looks.Take("b:1", [] { return absl::UnavailableError("b"); }).message(), "b");
}

}  // namespace
}  // namespace atolld
