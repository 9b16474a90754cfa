#include "daemon/transport/grpc_transport.h"

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "atoll/v1/admin.grpc.pb.h"
#include "atoll/v1/exchange.grpc.pb.h"
#include "daemon/env/posix_executor.h"
#include "daemon/transport/channels.h"
#include "daemon/transport/coordinator_client.h"
#include "gmock/gmock.h"
#include "tests/unit/daemon/env/temporary_directory.h"
#include "tests/unit/daemon/transport/test_authority.h"
#include "tests/unit/daemon/transport/transport_contract.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kLimit = absl::Seconds(60);

GrpcTransport::Options Lanes(int lanes) {
  GrpcTransport::Options options;
  options.failure_timeout = absl::Seconds(5);
  options.lanes = lanes;
  return options;
}

GrpcTransport::Options WithTls(const std::string& folder) {
  GrpcTransport::Options options = Lanes(1);
  options.tls = MakeTlsCredentials(folder);
  return options;
}

class GrpcWorld final : public TransportWorld {
 public:
  GrpcWorld(bool unix_socket, int lanes)
      : unix_socket_(unix_socket), server_(executor_, Lanes(1)), client_(executor_, Lanes(lanes)) {}
  // With mutual TLS.
  explicit GrpcWorld(TestAuthority certificates)
      : unix_socket_(false),
        server_(executor_, WithTls(certificates.Folder("server", Role::kPeer))),
        client_(executor_, WithTls(certificates.Folder("client", Role::kPeer))),
        identity_(certificates.IdentityOf("client")),
        certificates_(std::move(certificates)) {}

  Executor& executor() override { return executor_; }
  Transport& server() override { return server_; }
  Transport& client() override { return client_; }
  std::string listen_address() override {
    if (!unix_socket_) return "127.0.0.1:0";
    return absl::StrCat("unix:", directory_.File(absl::StrCat("socket", ++sockets_)));
  }
  std::string dead_address() override {
    if (unix_socket_) return absl::StrCat("unix:", directory_.File("nobody"));
    // A port that was just free: bind and close.
    auto listener = server_.Listen("127.0.0.1:0", [](const std::string&, std::unique_ptr<Call>) {});
    return (*listener)->address();
  }
  std::optional<Identity> client_identity() override { return identity_; }
  // Both ends relay what they send and receive, as fast as nobody's line is.
  void Cap() {
    for (GrpcTransport* const end : {&server_, &client_}) {
      CHECK_OK(end->SetCaps(uint64_t{1} << 33, uint64_t{1} << 33));
    }
  }
  bool RunUntil(const std::function<bool()>& condition, absl::Duration limit) override {
    return executor_.RunUntil(condition, limit);
  }

 private:
  const bool unix_socket_;
  int sockets_ = 0;
  const TemporaryDirectory directory_;
  PosixExecutor executor_{PosixExecutor::Options()};
  GrpcTransport server_;
  GrpcTransport client_;
  std::optional<Identity> identity_;
  std::optional<TestAuthority> certificates_;  // keeps its files
};

INSTANTIATE_TEST_SUITE_P(
    Grpc, TransportContract,
    ::testing::Values(WorldMaker{"Tcp", [] { return std::make_unique<GrpcWorld>(false, 1); }},
                      WorldMaker{"Unix", [] { return std::make_unique<GrpcWorld>(true, 1); }},
                      WorldMaker{"TwoLanes", [] { return std::make_unique<GrpcWorld>(false, 2); }},
                      WorldMaker{"Tls",
                                 [] { return std::make_unique<GrpcWorld>(TestAuthority()); }},
                      WorldMaker{"Capped",
                                 [] {
                                   auto world = std::make_unique<GrpcWorld>(TestAuthority());
                                   world->Cap();
                                   return world;
                                 }}),
    WorldName);

// A coordinator's Admin service on the transport: answers as a daemon would, on the loop.
class AdminServer {
 public:
  AdminServer() : transport_(executor_, Lanes(1)) {
    auto listener = transport_.Listen(
        "127.0.0.1:0", [this](const std::string& method, std::unique_ptr<Call> call) {
          Accept(method, std::move(call));
        });
    CHECK_OK(listener.status());
    listener_ = *std::move(listener);
    address_ = listener_->address();
    loop_ = std::thread([this] { executor_.Run(); });
  }
  ~AdminServer() {
    executor_.Post([this] {
      listener_.reset();
      executor_.Stop();
    });
    loop_.join();
    calls_.clear();
  }
  std::string address() const { return address_; }
  void Close() {
    executor_.Post([this] { listener_.reset(); });
  }
  std::atomic<int> closed{0};

 private:
  void Accept(const std::string& method, std::unique_ptr<Call> call) {
    Call* const raw = call.get();
    const int id = next_++;
    Call::Events events;
    events.on_frame = [this, raw, method](const Frame& frame) { Answer(method, frame, raw); };
    events.on_closed = [this, id](const absl::Status&) {
      calls_.erase(id);
      ++closed;
    };
    calls_.emplace(id, std::move(call));
    raw->Start(std::move(events));
    raw->Read();
  }
  void Answer(const std::string& method, const Frame& frame, Call* call) {
    v1::RunStatus status;
    status.set_version(42);
    if (method == "/atolld.v1.Admin/ShowRun") {
      call->Write(Pack(status));
      call->Finish(absl::OkStatus());
    } else if (method == "/atolld.v1.Admin/WatchRun") {
      for (uint64_t i = 1; i <= 3; ++i) {
        status.set_version(i);
        call->Write(Pack(status));
      }
      v1::WatchRunRequest request;
      CHECK_OK(Unpack(frame, &request));
      if (request.interval_milliseconds() == 100) call->Finish(absl::OkStatus());
    } else {
      call->Finish(absl::UnimplementedError(method));
    }
  }

  PosixExecutor executor_{PosixExecutor::Options()};
  GrpcTransport transport_;
  std::unique_ptr<Listener> listener_;
  std::string address_;
  std::map<int, std::unique_ptr<Call>> calls_;
  int next_ = 0;
  std::thread loop_;
};

// `atoll run show` is a generated stub's unary call: the generic server must answer it as gRPC
// does.
TEST(AdminClient, ShowsTheRun) {
  AdminServer server;
  AdminClient client({server.address(), ""});
  for (int i = 0; i < 20; ++i) {
    const auto status = client.ShowRun(0, 1);
    ASSERT_TRUE(status.ok()) << status.status();
    EXPECT_EQ(status->version(), 42u);
  }
}

// `atoll run watch` is server streaming: every status must come, then the server's end.
TEST(AdminClient, WatchesUntilTheServerEnds) {
  AdminServer server;
  AdminClient client({server.address(), ""});
  std::vector<uint64_t> versions;
  const absl::Status end =
      client.WatchRun(absl::Milliseconds(100), [&](const v1::RunStatus& status) {
        versions.push_back(status.version());
        return true;
      });
  EXPECT_TRUE(end.ok()) << end;
  EXPECT_THAT(versions, ::testing::ElementsAre(1, 2, 3));
}

// Ctrl-C in the live view must free the coordinator's end; a coordinator that goes must end the
// view.
TEST(AdminClient, AWatchEndsFromEitherSide) {
  AdminServer server;
  AdminClient client({server.address(), ""});
  int seen = 0;
  EXPECT_TRUE(
      client.WatchRun(absl::Milliseconds(200), [&](const v1::RunStatus&) { return ++seen < 2; })
          .ok());
  EXPECT_EQ(seen, 2);
  const absl::Status lost =
      client.WatchRun(absl::Milliseconds(200), [&](const v1::RunStatus& status) {
        if (status.version() == 3) server.Close();
        return true;
      });
  EXPECT_EQ(lost.code(), absl::StatusCode::kUnavailable) << lost;
}

// The most common mistake of a user is a wrong address: the line must say so.
TEST(AdminClient, SaysThatNobodyAnswers) {
  std::string address;
  {
    AdminServer server;
    address = server.address();
    AdminClient client({address, ""});
    EXPECT_EQ(client.ListHeaders(0, 1).status().code(), absl::StatusCode::kUnimplemented);
  }
  AdminClient client({address, ""});
  const auto status = client.ShowRun(0, 1);
  EXPECT_EQ(status.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(std::string(status.status().message()),
            absl::StrCat("no coordinator answers at ", address,
                         ": connection refused: nothing listens there"));
}

class GrpcTransportTest : public ::testing::Test {
 protected:
  GrpcTransportTest() : transport_(executor_, Lanes(1)) {}
  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address) {
    return transport_.Listen(address, [this](const std::string&, std::unique_ptr<Call> call) {
      server_ = std::make_unique<Endpoint>();
      server_->Take(std::move(call));
      server_->Start(true);
    });
  }
  PosixExecutor executor_{PosixExecutor::Options()};
  GrpcTransport transport_;
  std::unique_ptr<Endpoint> server_;
};

// A stranger that sends bytes which are no message must be refused by name, and hurt nobody.
TEST_F(GrpcTransportTest, RefusesBytesThatAreNoMessage) {
  const auto listener = Listen("127.0.0.1:0");
  ASSERT_TRUE(listener.ok());
  const auto channel =
      grpc::CreateChannel((*listener)->address(), grpc::InsecureChannelCredentials());
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  const grpc::Slice slice("\x7a\xff\xff\xff\x7f");
  const grpc::ByteBuffer request(&slice, 1);
  grpc::ByteBuffer response;
  std::atomic<bool> done{false};
  grpc::Status status;
  stub.UnaryCall(&context, "/a/b", {}, &request, &response, [&](grpc::Status result) {
    status = result;
    done = true;
    executor_.Post([] {});
  });
  ASSERT_TRUE(executor_.RunUntil([&] { return done && server_ && server_->closed; }, kLimit));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << status.error_message();
  EXPECT_EQ(server_->status.code(), absl::StatusCode::kInvalidArgument);
}

// A compressed message may be a bomb; nobody in Atoll sends one.
TEST_F(GrpcTransportTest, RefusesCompressedMessages) {
  const auto listener = Listen("127.0.0.1:0");
  ASSERT_TRUE(listener.ok());
  grpc::ChannelArguments arguments;
  arguments.SetCompressionAlgorithm(GRPC_COMPRESS_GZIP);
  const auto channel = grpc::CreateCustomChannel((*listener)->address(),
                                                 grpc::InsecureChannelCredentials(), arguments);
  const auto stub = v1::Exchange::NewStub(channel);
  std::atomic<bool> done{false};
  grpc::Status status;
  std::thread thread([&] {
    grpc::ClientContext context;
    const auto stream = stub->Exchange(&context);
    v1::ToReducer message;
    message.set_payload(std::string(size_t{1} << 20, '\0'));
    stream->Write(message);
    stream->WritesDone();
    status = stream->Finish();
    done = true;
    executor_.Post([] {});
  });
  EXPECT_TRUE(executor_.RunUntil([&] { return done.load(); }, kLimit));
  thread.join();
  EXPECT_FALSE(status.ok());
  EXPECT_TRUE(server_ == nullptr || server_->frames.empty());
}

// Every way in which an address cannot be listened on must be told apart, in one line with the
// address.
TEST_F(GrpcTransportTest, SaysWhyItCannotListen) {
  const std::vector<std::pair<std::string, absl::StatusCode>> cases = {
      {"127.0.0.1", absl::StatusCode::kInvalidArgument},
      {"no.such.host.invalid:0", absl::StatusCode::kInvalidArgument},
      {"192.0.2.1:0", absl::StatusCode::kFailedPrecondition},
      {absl::StrCat("unix:/", std::string(200, 'x')), absl::StatusCode::kInvalidArgument},
      {"unix:/no/such/folder/socket", absl::StatusCode::kFailedPrecondition},
      {"unix:/tmp/a,b", absl::StatusCode::kInvalidArgument},  // gRPC would read two addresses
      {"unix:/tmp/a#b", absl::StatusCode::kInvalidArgument},
      {"unix:/tmp/a%41", absl::StatusCode::kInvalidArgument},
  };
  for (const auto& [address, code] : cases) {
    const auto listener = Listen(address);
    EXPECT_EQ(listener.status().code(), code) << listener.status();
    EXPECT_THAT(std::string(listener.status().message()), HasSubstr(address));
  }
}

// A peer killed by force leaves its socket file; the next start must take the place.
TEST_F(GrpcTransportTest, ReplacesAStaleSocketFile) {
  const TemporaryDirectory directory;
  const std::string path = directory.File("socket");
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  ASSERT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  close(fd);
  const auto listener = Listen(absl::StrCat("unix:", path));
  EXPECT_TRUE(listener.ok()) << listener.status();
}

// Lanes are useless if they share one connection: the server must see several.
TEST_F(GrpcTransportTest, LanesAreSeparateConnections) {
  std::vector<std::unique_ptr<Endpoint>> accepted;
  const auto listener =
      transport_.Listen("127.0.0.1:0", [&](const std::string&, std::unique_ptr<Call> call) {
        accepted.push_back(std::make_unique<Endpoint>());
        accepted.back()->Take(std::move(call));
        accepted.back()->Start(true);
      });
  ASSERT_TRUE(listener.ok());
  GrpcTransport client(executor_, Lanes(2));
  std::vector<std::unique_ptr<Endpoint>> dialled;
  for (int i = 0; i < 4; ++i) {
    dialled.push_back(std::make_unique<Endpoint>());
    dialled.back()->Take(client.Dial((*listener)->address(), "/a/b", absl::InfiniteDuration()));
    dialled.back()->Start(true);
  }
  ASSERT_TRUE(executor_.RunUntil([&] { return accepted.size() == 4; }, kLimit));
  std::map<std::string, int> connections;
  for (const auto& end : accepted) ++connections[end->call().remote()];
  EXPECT_EQ(connections.size(), 2u);
  for (const auto& [remote, calls] : connections) {
    EXPECT_EQ(calls, 2) << remote;
    EXPECT_TRUE(absl::StartsWith(remote, "127.0.0.1:")) << remote;
  }
}

// A process ends with calls under way: nothing may hang or touch what is gone, though the loop no
// longer runs.
TEST_F(GrpcTransportTest, EndsWithCallsUnderWay) {
  auto client = std::make_unique<GrpcTransport>(executor_, Lanes(1));
  auto listener = Listen("127.0.0.1:0");
  ASSERT_TRUE(listener.ok());
  Endpoint end;
  end.Take(client->Dial((*listener)->address(), "/a/b", absl::InfiniteDuration()));
  end.Start(false);
  Frame frame;
  frame.payload = SharedBytes(std::string(size_t{1} << 20, 'x'));
  for (int i = 0; i < 50; ++i) end.call().Write(frame);
  ASSERT_TRUE(executor_.RunUntil([&] { return server_ && !server_->frames.empty(); }, kLimit));
  listener->reset();
  client.reset();
  ASSERT_TRUE(executor_.RunUntil([&] { return end.closed && server_->closed; }, kLimit));
  EXPECT_EQ(end.status.code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace atolld
