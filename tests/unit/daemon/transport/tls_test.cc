// Would break: somebody without a valid certificate of this cluster is heard, or a process speaks
// to one that only claims to be the coordinator.
#include "daemon/transport/tls.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <sys/stat.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "atoll/v1/admin.grpc.pb.h"
#include "compression/base/check.h"
#include "daemon/env/network.h"
#include "daemon/env/posix_executor.h"
#include "daemon/transport/coordinator_client.h"
#include "daemon/transport/grpc_transport.h"
#include "gmock/gmock.h"
#include "tests/unit/daemon/transport/test_authority.h"
#include "tests/unit/daemon/transport/transport_contract.h"

namespace atolld {
namespace {

constexpr char kSession[] = "/atolld.v1.Membership/Session";
constexpr char kExchange[] = "/atolld.v1.Exchange/Exchange";
constexpr absl::Duration kTlsLimit = absl::Seconds(60);

GrpcTransport::Options OptionsOf(const std::string& folder) {
  GrpcTransport::Options options;
  options.failure_timeout = absl::Seconds(5);
  if (!folder.empty()) options.tls = MakeTlsCredentials(folder);
  return options;
}

class TlsTest : public ::testing::Test {
 protected:
  void Listen(Role role) { Serve(certificates_.Folder("server", role)); }
  void Serve(const std::string& folder) {
    server_ = std::make_unique<GrpcTransport>(executor_, OptionsOf(folder));
    auto listener =
        server_->Listen("127.0.0.1:0", [this](const std::string&, std::unique_ptr<Call> call) {
          accepted_.push_back(std::make_unique<Endpoint>());
          accepted_.back()->Take(std::move(call));
          accepted_.back()->Start(true);
        });
    ASSERT_TRUE(listener.ok()) << listener.status();
    listener_ = *std::move(listener);
  }

  // What becomes of a call that says one frame; OK: it was heard.
  // `peer`: who is dialled, if it is known.
  absl::Status Try(const std::string& folder, const std::string& method,
                   const std::string& peer = "") {
    GrpcTransport client(executor_, OptionsOf(folder));
    Endpoint end;
    const std::string address = listener_->address();
    end.Take(client.Dial(peer.empty() ? address : FormatPeerAddress(peer, address), method,
                         absl::Seconds(20)));
    end.Start(true);
    end.call().Write(MakeFrame("hello"));
    const size_t before = accepted_.size();
    CHECK(executor_.RunUntil(
        [&] {
          return end.closed || (accepted_.size() > before && !accepted_.back()->frames.empty());
        },
        kTlsLimit));
    if (!end.closed) return absl::OkStatus();
    EXPECT_EQ(before, accepted_.size()) << "it reached the acceptor";
    return end.status;
  }

  TestAuthority certificates_;
  TestAuthority foreign_;
  PosixExecutor executor_{PosixExecutor::Options()};
  std::unique_ptr<GrpcTransport> server_;
  std::unique_ptr<Listener> listener_;
  std::vector<std::unique_ptr<Endpoint>> accepted_;
};

TEST_F(TlsTest, OnlyValidCertificatesOfThisClusterAreHeard) {
  Listen(Role::kPeer);
  const absl::Duration day = absl::Hours(24);
  EXPECT_TRUE(Try(certificates_.Folder("good", Role::kPeer), kExchange).ok());
  EXPECT_TRUE(absl::IsUnavailable(Try("", kExchange))) << "plain text";
  const absl::Status foreign = Try(foreign_.Folder("good", Role::kPeer), kExchange);
  EXPECT_TRUE(absl::IsUnavailable(foreign));
  EXPECT_THAT(std::string(foreign.message()), ::testing::HasSubstr(": wrong run: "));
  EXPECT_TRUE(absl::IsUnavailable(
      Try(certificates_.Folder("expired", Role::kPeer, 100 * day, 90 * day), kExchange)));
  EXPECT_TRUE(absl::IsUnavailable(
      Try(certificates_.Folder("early", Role::kPeer, -2 * day, 90 * day), kExchange)));
  // TLS, this cluster's authority, and no certificate.
  const std::string good = certificates_.Folder("good", Role::kPeer);
  PosixFiles files;
  grpc::ChannelArguments arguments;
  arguments.SetSslTargetNameOverride(ServerName(Role::kPeer));
  const auto channel = grpc::CreateCustomChannel(
      listener_->address(),
      grpc::SslCredentials({*ReadFile(files, AuthorityFile(good), 16384), "", ""}), arguments);
  const auto stub = v1::Admin::NewStub(channel);
  grpc::ClientContext context;
  context.set_deadline(
      gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_seconds(10, GPR_TIMESPAN)));
  v1::RunStatus status;
  EXPECT_EQ(grpc::StatusCode::UNAVAILABLE,
            stub->ShowRun(&context, v1::ShowRunRequest(), &status).error_code());
  EXPECT_EQ(1u, accepted_.size());
}

TEST_F(TlsTest, RolesAreHeldToTheTable) {
  Listen(Role::kPeer);
  const struct {
    Role role;
    bool heard;
  } cases[] = {{Role::kPeer, true},
               {Role::kAggregator, true},
               {Role::kJoin, false},
               {Role::kAdmin, false},
               {Role::kCoordinator, false}};
  for (const auto& one : cases) {
    const absl::Status status = Try(certificates_.Folder("caller", one.role), kExchange);
    EXPECT_EQ(one.heard, status.ok()) << RoleName(one.role);
    if (!one.heard) {
      EXPECT_TRUE(absl::IsPermissionDenied(status)) << status;
    }
  }
  EXPECT_TRUE(absl::IsUnimplemented(Try(certificates_.Folder("good", Role::kPeer), "/a/b")));
}

// A peer that has taken the coordinator's address must not be told anything.
TEST_F(TlsTest, WhoeverIsDialledMustServeInThatRole) {
  const std::string peer = certificates_.Folder("caller", Role::kPeer);
  Listen(Role::kCoordinator);
  EXPECT_TRUE(Try(peer, kSession).ok());
  EXPECT_TRUE(absl::IsUnavailable(Try(peer, kExchange)));
  listener_.reset();
  for (const Role role : {Role::kPeer, Role::kAdmin, Role::kJoin}) {
    Listen(role);
    EXPECT_TRUE(absl::IsUnavailable(Try(peer, kSession))) << RoleName(role);
    listener_.reset();
  }
}

// Whoever has a stolen key answers where its owner is dialled: nothing is said to it once the key
// is revoked, not even over a connection that is open already.
TEST_F(TlsTest, WhoeverAnswersWithARefusedKeyIsNotSpokenTo) {
  Listen(Role::kPeer);
  GrpcTransport client(executor_, OptionsOf(certificates_.Folder("caller", Role::kPeer)));
  const auto dial = [&] {
    Endpoint end;
    end.Take(client.Dial(FormatPeerAddress("server", listener_->address()), kExchange,
                         absl::Seconds(20)));
    end.Start(true);
    end.call().Write(MakeFrame("hello"));
    const size_t before = accepted_.size();
    CHECK(executor_.RunUntil([&] { return end.closed || accepted_.size() > before; }, kTlsLimit));
    return end.closed ? end.status : absl::OkStatus();
  };
  EXPECT_TRUE(dial().ok());
  client.RefuseKeys({"another key"});
  EXPECT_TRUE(dial().ok());
  accepted_.clear();
  client.RefuseKeys({certificates_.IdentityOf("server").key});
  const absl::Status refused = dial();
  EXPECT_TRUE(absl::IsUnavailable(refused)) << refused;
  EXPECT_TRUE(accepted_.empty()) << "it was spoken to";
  client.RefuseKeys({});
  EXPECT_TRUE(dial().ok());
}

// A member that has taken another's address must not be told what is meant for that one.
TEST_F(TlsTest, APeerThatIsNamedMustBeTheOneThatAnswers) {
  const std::string caller = certificates_.Folder("caller", Role::kPeer);
  const auto dial = [&](const std::string& peer) {
    GrpcTransport client(executor_, OptionsOf(caller));
    Endpoint end;
    end.Take(
        client.Dial(FormatPeerAddress(peer, listener_->address()), kExchange, absl::Seconds(20)));
    end.Start(true);
    end.call().Write(MakeFrame("hello"));
    const size_t before = accepted_.size();
    CHECK(executor_.RunUntil([&] { return end.closed || accepted_.size() > before; }, kTlsLimit));
    return end.closed ? end.status : absl::OkStatus();
  };
  for (const Role role : {Role::kPeer, Role::kAggregator}) {
    Listen(role);
    EXPECT_TRUE(dial("server").ok());
    accepted_.clear();
    const absl::Status wrong = dial("another");
    EXPECT_TRUE(absl::IsUnavailable(wrong)) << wrong;
    EXPECT_THAT(std::string(wrong.message()),
                ::testing::HasSubstr(absl::StrCat("peer another should be there, and it is ",
                                                  RoleName(role), " server")));
    EXPECT_TRUE(accepted_.empty()) << "it was spoken to";
    listener_.reset();
  }
  Listen(Role::kCoordinator);
  EXPECT_TRUE(absl::IsUnavailable(dial("server"))) << "the id alone is not enough";
}

// Whoever has taken an address must not be told anything: these servers would take the caller, so
// the caller alone can object.
TEST_F(TlsTest, WhoeverIsDialledMustShowAValidCertificateOfThisCluster) {
  const std::string caller = certificates_.Folder("caller", Role::kPeer);
  const absl::Duration day = absl::Hours(24);
  const struct {
    Role role;
    const char* method;
    const char* peer;
  } cases[] = {{Role::kCoordinator, kSession, ""},
               {Role::kPeer, kExchange, ""},
               {Role::kPeer, kExchange, "server"}};
  for (const auto& one : cases) {
    SCOPED_TRACE(absl::StrCat(one.method, " ", one.peer));
    Listen(one.role);
    EXPECT_TRUE(Try(caller, one.method, one.peer).ok());
    listener_.reset();
    accepted_.clear();

    const Credentials foreign =
        MakeCredentials(foreign_.authority(), one.role, "server", absl::Now()).value();
    const std::string folder = certificates_.FolderOf(absl::StrCat("foreign-", RoleName(one.role)));
    PosixFiles files;
    ASSERT_TRUE(
        SaveCredentials(files, folder,
                        {certificates_.authority().certificate(), foreign.certificate, foreign.key})
            .ok());
    Serve(folder);
    const absl::Status other = Try(caller, one.method, one.peer);
    EXPECT_TRUE(absl::IsUnavailable(other)) << "another authority's";
    EXPECT_THAT(std::string(other.message()), ::testing::HasSubstr(": wrong run: "));
    listener_.reset();

    Serve(certificates_.Folder("server", one.role, 100 * day, 90 * day));
    const absl::Status expired = Try(caller, one.method, one.peer);
    EXPECT_TRUE(absl::IsUnavailable(expired)) << "expired";
    EXPECT_THAT(std::string(expired.message()), ::testing::HasSubstr("has expired"));
    listener_.reset();
    EXPECT_TRUE(accepted_.empty());
  }
}

// A certificate that was renewed must serve without a restart.
TEST_F(TlsTest, ARenewedCertificateIsTakenUp) {
  Listen(Role::kPeer);
  const std::string folder = certificates_.Folder("caller", Role::kPeer);
  const GrpcTransport::Options options = OptionsOf(folder);
  const auto serial = [&] {
    GrpcTransport client(executor_, options);  // with a connection of its own
    Endpoint end;
    end.Take(client.Dial(listener_->address(), kExchange, absl::Seconds(20)));
    end.Start(true);
    const size_t before = accepted_.size();
    CHECK(executor_.RunUntil([&] { return end.closed || accepted_.size() > before; }, kTlsLimit));
    if (end.closed) return std::string("refused: ") + end.status.ToString();
    return accepted_.back()->call().identity()->serial;
  };
  const std::string first = serial();
  EXPECT_EQ(certificates_.IdentityOf("caller").serial, first);
  PosixFiles files;
  const auto key = PrivateKey::FromPem(*ReadFile(files, KeyFile(folder), 16384));
  const std::string renewed = certificates_.authority()
                                  .Issue(*key->SigningRequest(), Role::kPeer, "caller", absl::Now())
                                  .value();
  ASSERT_TRUE(SaveCertificate(files, folder, renewed).ok());
  const std::string wanted = certificates_.IdentityOf("caller").serial;
  const absl::Time end = absl::Now() + kTlsLimit;
  std::string seen = first;
  while (seen == first && absl::Now() < end) seen = serial();
  EXPECT_EQ(wanted, seen);
}

TEST_F(TlsTest, OnlyAdministratorsGiveOrders) {
  Listen(Role::kCoordinator);
  AdminClient peer({listener_->address(), certificates_.Folder("p", Role::kPeer)});
  AdminClient nobody({listener_->address(), ""}, absl::Seconds(5));
  // Refused on gRPC's threads: the loop, which does not run here, has no part in it.
  EXPECT_TRUE(absl::IsPermissionDenied(peer.ShowRun(0, 1).status()));
  EXPECT_TRUE(absl::IsUnavailable(nobody.ShowRun(0, 1).status()));
}

// The worker's socket carries no certificates: its mode is its guard.
TEST_F(TlsTest, AUnixSocketIsItsOwnersAlone) {
  const TemporaryDirectory directory;
  const std::string path = directory.File("socket");
  GrpcTransport transport(executor_, OptionsOf(certificates_.Folder("p", Role::kPeer)));
  bool heard = false;
  const auto listener =
      transport.Listen("unix:" + path, [&](const std::string&, std::unique_ptr<Call> call) {
        EXPECT_FALSE(call->identity().has_value());
        heard = true;
      });
  ASSERT_TRUE(listener.ok()) << listener.status();
  struct stat about = {};
  ASSERT_EQ(0, stat(path.c_str(), &about));
  EXPECT_EQ(0600u, about.st_mode & 0777u);
  Endpoint end;
  end.Take(transport.Dial("unix:" + path, "/atolld.v1.Worker/Attach", absl::Seconds(20)));
  end.Start(true);
  EXPECT_TRUE(executor_.RunUntil([&] { return heard; }, kTlsLimit));
}

}  // namespace
}  // namespace atolld
