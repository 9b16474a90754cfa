// Would break: one stranger that says too much, or says it too slowly, takes a server's memory or
// its time from everybody.
#include <arpa/inet.h>
#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/server_builder.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "compression/base/check.h"
#include "daemon/env/posix_executor.h"
#include "daemon/transport/grpc_transport.h"
#include "daemon/transport/grpc_values.h"
#include "gtest/gtest.h"
#include "tests/unit/daemon/transport/transport_contract.h"

namespace atolld {
namespace {

constexpr absl::Duration kCallLimit = absl::Seconds(60);

GrpcTransport::Options OneLane() {
  GrpcTransport::Options options;
  options.failure_timeout = absl::Seconds(5);
  options.lanes = 1;
  return options;
}

grpc::ByteBuffer Zeros(size_t bytes) {
  const grpc::Slice slice(std::string(bytes, '\0'));
  return grpc::ByteBuffer(&slice, 1);
}

// A server whose calls end with OK after their first frame, unless they are to stay open.
class GrpcLimitsTest : public ::testing::Test {
 protected:
  GrpcLimitsTest() : server_(executor_, OneLane()), client_(executor_, OneLane()) {
    auto listening = server_.Listen(
        "127.0.0.1:0", [this](const std::string& method, std::unique_ptr<Call> call) {
          Endpoint& end = *(accepted_[method].emplace_back(std::make_unique<Endpoint>()));
          end.Take(std::move(call));
          const size_t payload = absl::StrContains(method, "ShowRun") ? size_t{5} << 20 : 0;
          if (method != "/stays/open") {
            end.after_frame = [&end, payload] {
              if (payload > 0) end.call().Write(MakeFrame("told", payload));
              end.call().Finish(absl::OkStatus());
            };
          }
          end.Start(true);
        });
    CHECK_OK(listening.status());
    listener_ = *std::move(listening);
  }

  std::unique_ptr<Endpoint> Dial(const std::string& address, const std::string& method) {
    auto end = std::make_unique<Endpoint>();
    end->Take(client_.Dial(address, method, absl::InfiniteDuration()));
    end->Start(true);
    return end;
  }
  bool Until(const std::function<bool()>& condition) {
    return executor_.RunUntil(condition, kCallLimit);
  }

  PosixExecutor executor_{PosixExecutor::Options()};
  GrpcTransport server_;
  GrpcTransport client_;
  std::map<std::string, std::vector<std::unique_ptr<Endpoint>>> accepted_;  // by method
  std::unique_ptr<Listener> listener_;
};

// Would break: nobody could see a run of ten thousand peers; or what is a stranger's could be as
// large.
TEST_F(GrpcLimitsTest, OnlyAnOperatorIsToldMore) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(static_cast<int>(kMaxToldBytes));
  grpc::GenericStub stub(grpc::CreateCustomChannel(listener_->address(),
                                                   grpc::InsecureChannelCredentials(), arguments));
  const struct {
    const char* method;
    grpc::StatusCode code;
  } cases[] = {{"/atolld.v1.Admin/ShowRun", grpc::StatusCode::OK},
               {"/atolld.v1.Replica/ShowRun", grpc::StatusCode::RESOURCE_EXHAUSTED}};
  for (const auto& one : cases) {
    grpc::ClientContext context;
    const grpc::ByteBuffer request = ToByteBuffer(MakeFrame("tell"));
    grpc::ByteBuffer response;
    std::atomic<bool> done{false};
    grpc::Status status;
    stub.UnaryCall(&context, one.method, {}, &request, &response, [&](grpc::Status result) {
      status = result;
      done = true;
      executor_.Post([] {});
    });
    ASSERT_TRUE(Until([&] { return done.load(); }));
    EXPECT_EQ(status.error_code(), one.code) << one.method << ": " << status.error_message();
    EXPECT_EQ(response.Length() > size_t{5} << 20, one.code == grpc::StatusCode::OK);
  }
}

// Would break: a stranger's message of any size would be taken into memory.
TEST_F(GrpcLimitsTest, AServerTakesNoLargerMessage) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxSendMessageSize(-1);
  grpc::GenericStub stub(grpc::CreateCustomChannel(listener_->address(),
                                                   grpc::InsecureChannelCredentials(), arguments));
  grpc::ClientContext context;
  const grpc::ByteBuffer request = Zeros(kMaxMessageBytes + 1);
  grpc::ByteBuffer response;
  std::atomic<bool> done{false};
  grpc::Status status;
  stub.UnaryCall(&context, "/stays/open", {}, &request, &response, [&](grpc::Status result) {
    status = result;
    done = true;
    executor_.Post([] {});
  });
  ASSERT_TRUE(Until([&] { return done.load(); }));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << status.error_message();
  for (const auto& end : accepted_["/stays/open"]) EXPECT_TRUE(end->frames.empty());
}

// Answers every call with 5 MiB.
class LargeAnswers final : public grpc::CallbackGenericService {
  class Reactor final : public grpc::ServerGenericBidiReactor {
   public:
    Reactor() : answer_(Zeros(size_t{5} << 20)) { StartWrite(&answer_); }
    void OnWriteDone(bool) override { Finish(grpc::Status::OK); }
    void OnDone() override { delete this; }

   private:
    const grpc::ByteBuffer answer_;
  };
  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext*) override {
    return new Reactor();
  }
};

// Would break: whoever is dialled could fill the dialler's memory.
TEST_F(GrpcLimitsTest, AClientTakesNoLargerMessage) {
  LargeAnswers service;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterCallbackGenericService(&service);
  builder.SetMaxSendMessageSize(-1);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  const auto end = Dial(absl::StrCat("127.0.0.1:", port), "/a/b");
  ASSERT_TRUE(Until([&] { return end->closed; }));
  EXPECT_TRUE(absl::IsResourceExhausted(end->status)) << end->status;
  EXPECT_TRUE(end->frames.empty());
  server->Shutdown();
}

std::string Http2Frame(char type, char flags, char stream, const std::string& payload) {
  const char head[] = {static_cast<char>(payload.size() >> 16),
                       static_cast<char>(payload.size() >> 8),
                       static_cast<char>(payload.size()),
                       type,
                       flags,
                       0,
                       0,
                       0,
                       stream};
  return std::string(head, sizeof head) + payload;
}

// HTTP/2 by hand: one call, of which the test says every byte. It answers pings, so that no
// keepalive ends it.
class RawCall {
 public:
  RawCall(Executor& executor, const std::string& address, const std::string& method)
      : executor_(executor), fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    int port = 0;
    CHECK(absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port));
    sockaddr_in to = {};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<uint16_t>(port));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    CHECK(connect(fd_, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0);
    // POST, http, then literals: authority, path, content-type (name 31 of the table), te.
    std::string headers = "\x83\x86\x01\x01x\x04";
    headers += static_cast<char>(method.size());
    headers += method + "\x0f\x10\x10" + "application/grpc" + '\0' + "\x02te\x08trailers";
    Send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + Http2Frame(4, 0, 0, "") +
         Http2Frame(1, 4, 1, headers));
    thread_ = std::thread([this] { Read(); });
  }
  ~RawCall() {
    shutdown(fd_, SHUT_RDWR);
    thread_.join();
    close(fd_);
  }

  void SendData(const std::string& bytes) { Send(Http2Frame(0, 0, 1, bytes)); }
  // Data for as long as the server takes more of it, but no more than this.
  uint64_t SendUntilNoMoreIsTaken(uint64_t most) {
    const std::string piece(size_t{16} << 10, 'x');
    uint64_t sent = 0;
    while (sent < most && WaitForWindow(static_cast<int64_t>(piece.size()))) {
      SendData(piece);
      sent += piece.size();
    }
    return sent;
  }
  // The server has ended the call, or its connection.
  bool ended() const { return ended_; }

 private:
  static uint32_t Number(const std::string& bytes) {
    uint32_t number = 0;
    for (const char byte : bytes) number = number << 8 | static_cast<uint8_t>(byte);
    return number;
  }
  void TakeSettings(const std::string& settings) {
    for (size_t i = 0; i + 6 <= settings.size(); i += 6) {
      if (Number(settings.substr(i, 2)) != 4) continue;
      const int64_t size = Number(settings.substr(i + 2, 4));
      absl::MutexLock lock(&mutex_);
      stream_window_ += size - initial_window_;
      initial_window_ = size;
    }
    Send(Http2Frame(4, 1, 0, ""));
  }
  bool WaitForWindow(int64_t bytes) {
    absl::MutexLock lock(&mutex_);
    const auto ready = [&] {
      mutex_.AssertHeld();
      return ended_ || std::min(stream_window_, connection_window_) >= bytes;
    };
    // One that takes a message opens the window in microseconds.
    if (!mutex_.AwaitWithTimeout(absl::Condition(&ready), absl::Seconds(2)) || ended_) return false;
    stream_window_ -= bytes;
    connection_window_ -= bytes;
    return true;
  }
  void Widen(uint32_t stream, uint32_t by) {
    absl::MutexLock lock(&mutex_);
    (stream == 0 ? connection_window_ : stream_window_) += by;
  }
  void Send(const std::string& bytes) {
    const ssize_t sent = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    CHECK(sent < 0 || static_cast<size_t>(sent) == bytes.size());
  }
  void Read() {
    std::string bytes;
    char piece[4096];
    for (ssize_t got = 1; got > 0;) {
      got = recv(fd_, piece, sizeof piece, 0);
      if (got > 0) bytes.append(piece, static_cast<size_t>(got));
      while (bytes.size() >= 9) {
        const auto byte = [&](size_t i) { return static_cast<uint8_t>(bytes[i]); };
        const size_t size = 9 + (size_t{byte(0)} << 16 | size_t{byte(1)} << 8 | byte(2));
        if (bytes.size() < size) break;
        const bool flagged = (byte(4) & 1) != 0;  // END_STREAM or ACK
        if (byte(3) == 4 && !flagged) TakeSettings(bytes.substr(9, size - 9));
        if (byte(3) == 8) Widen(byte(8) & 0x7f, Number(bytes.substr(9, 4)));
        if (byte(3) == 6 && !flagged) Send(Http2Frame(6, 1, 0, bytes.substr(9, 8)));
        if (byte(3) == 3 || byte(3) == 7 || (byte(3) == 1 && flagged)) End();
        bytes.erase(0, size);
      }
    }
    End();
  }
  void End() {
    absl::MutexLock lock(&mutex_);
    ended_ = true;
    executor_.Post([] {});
  }

  Executor& executor_;
  const int fd_;
  std::atomic<bool> ended_{false};
  absl::Mutex mutex_;
  int64_t initial_window_ = 65535;
  int64_t stream_window_ = 65535;
  int64_t connection_window_ = 65535;
  std::thread thread_;
};

// Would break: one that sends a message a byte at a time would be waited for by everybody.
TEST_F(GrpcLimitsTest, AHalfSentMessageHoldsNobodyUp) {
  RawCall slow(executor_, listener_->address(), "/slow/call");
  slow.SendData(std::string("\0\0\x10\0\0x", 6));
  std::vector<std::unique_ptr<Endpoint>> calls;
  for (int i = 0; i < 100; ++i) {
    calls.push_back(Dial(listener_->address(), "/a/b"));
    calls.back()->call().Write(MakeFrame("hello", 1000));
  }
  for (const auto& call : calls) {
    ASSERT_TRUE(Until([&] { return call->closed; }));
    EXPECT_TRUE(call->status.ok()) << call->status;
  }
  ASSERT_TRUE(Until([&] { return accepted_["/slow/call"].size() == 1; }));
  EXPECT_TRUE(accepted_["/slow/call"][0]->frames.empty());
  EXPECT_FALSE(accepted_["/slow/call"][0]->closed);
  EXPECT_FALSE(slow.ended());
}

// Would break: messages that are announced at 4 GiB and come and come would take all memory. gRPC
// refuses a message for its length only when it is whole; until then it has the transport's memory.
TEST_F(GrpcLimitsTest, AMessageWithoutEndTakesTheTransportsMemoryAndNoMore) {
  constexpr uint64_t kMemory = uint64_t{64} << 20;
  GrpcTransport::Options options = OneLane();
  options.memory_bytes = kMemory;
  GrpcTransport server(executor_, options);
  std::vector<std::unique_ptr<Endpoint>> taken;
  const auto listener = server.Listen("127.0.0.1:0", [&](const std::string&, auto call) {
    Endpoint& end = *taken.emplace_back(std::make_unique<Endpoint>());
    end.Take(std::move(call));
    end.Start(true);
  });
  ASSERT_TRUE(listener.ok()) << listener.status();
  RawCall endless(executor_, (*listener)->address(), "/endless/call");
  endless.SendData(std::string("\0\xff\xff\xff\xff", 5));
  std::atomic<bool> full{false};
  uint64_t sent = 0;
  std::thread sender([&] {
    sent = endless.SendUntilNoMoreIsTaken(16 * kMemory);
    full = true;
    executor_.Post([] {});
  });
  EXPECT_TRUE(Until([&] { return full.load(); }));
  sender.join();
  EXPECT_LT(sent, 2 * kMemory);
  // Others are served beside it. One call of theirs may end for want of memory, as by a cut line.
  size_t frames = 0;
  for (int attempt = 0; attempt < 20 && frames < 100; ++attempt) {
    const std::unique_ptr<Endpoint> other = Dial((*listener)->address(), "/a/b");
    for (int i = 0; i < 100; ++i) other->call().Write(MakeFrame("bulk", 1 << 20));
    EXPECT_TRUE(Until([&] {
      frames = taken.empty() ? 0 : taken.back()->frames.size();
      return frames == 100 || other->closed;
    }));
  }
  EXPECT_EQ(frames, 100u);
}

// Would break: one connection could open calls without end.
TEST_F(GrpcLimitsTest, AConnectionHasSoManyCallsAtOnce) {
  constexpr size_t kMost = 256;  // kMaxStreams of the listener
  std::vector<std::unique_ptr<Endpoint>> calls;
  for (size_t i = 0; i < kMost + 40; ++i) {
    calls.push_back(Dial(listener_->address(), "/stays/open"));
  }
  auto& open = accepted_["/stays/open"];
  ASSERT_TRUE(Until([&] { return open.size() >= kMost; }));
  // Whatever else was sent with them has come when a call of another connection has.
  GrpcTransport other(executor_, OneLane());
  Endpoint marker;
  marker.Take(other.Dial(listener_->address(), "/a/b", absl::InfiniteDuration()));
  marker.Start(true);
  marker.call().Write(MakeFrame("hello"));
  ASSERT_TRUE(Until([&] { return marker.closed; }));
  EXPECT_TRUE(marker.status.ok()) << marker.status;
  EXPECT_EQ(open.size(), kMost);
  open[0]->call().Finish(absl::OkStatus());
  ASSERT_TRUE(Until([&] { return open.size() > kMost; }));
  EXPECT_EQ(open.size(), kMost + 1);
}

}  // namespace
}  // namespace atolld
