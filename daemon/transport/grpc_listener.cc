#include "daemon/transport/grpc_listener.h"

#include <grpc/grpc.h>
#include <grpcpp/server_builder.h>

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "daemon/status_macros.h"
#include "daemon/transport/bind_probe.h"
#include "daemon/transport/channels.h"
#include "daemon/transport/grpc_transport.h"
#include "daemon/transport/reactors.h"

namespace atolld {
namespace {

// Streams that one connection may have open: an exchange needs one a pair of peers, a joiner a few.
constexpr int kMaxStreams = 256;

// "ipv4:127.0.0.1:80", "ipv6:%5B::1%5D:80" or "unix:..." as people write addresses.
std::string PlainPeer(absl::string_view peer) {
  if (!absl::ConsumePrefix(&peer, "ipv4:")) absl::ConsumePrefix(&peer, "ipv6:");
  return absl::StrReplaceAll(peer, {{"%5B", "["}, {"%5D", "]"}, {"%25", "%"}});
}

class ServerCall final : public Call {
 public:
  ServerCall(std::shared_ptr<LoopEnd> end, std::shared_ptr<Wire> wire, std::string remote)
      : end_(std::move(end)), wire_(std::move(wire)), remote_(std::move(remote)) {}

  ~ServerCall() override {
    end_->Detach();
    if (end_->closed() && end_->closed_status().ok()) {
      // No further callback would come, so the owner cannot wait for what it has queued.
      wire_->End(absl::OkStatus());
    } else {
      wire_->Break(absl::CancelledError("the server dropped the call"), /*gently=*/false);
    }
  }

  void Start(Events events) override { end_->Start(wire_, std::move(events)); }
  void Read() override { end_->Read(); }
  void Write(Frame frame) override {
    CHECK(!finished_);
    wire_->Send(std::move(frame));
  }
  size_t unsent_bytes() const override { return wire_->unsent_bytes(); }
  void Finish(absl::Status status) override {
    finished_ = true;
    wire_->End(status);
  }
  uint64_t sent_bytes() const override { return wire_->sent_bytes(); }
  std::string remote() const override { return remote_; }

 private:
  const std::shared_ptr<LoopEnd> end_;
  const std::shared_ptr<Wire> wire_;
  const std::string remote_;
  bool finished_ = false;
};

}  // namespace

class GrpcListener::Service final : public grpc::CallbackGenericService {
 public:
  Service(Executor& executor, Transport::Acceptor acceptor)
      : executor_(executor),
        live_(std::make_shared<LiveCalls>(executor_)),
        acceptor_(std::make_shared<Transport::Acceptor>(std::move(acceptor))) {}

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    auto end = std::make_shared<LoopEnd>(executor_, /*reads_ahead=*/false);
    auto reactor = std::make_shared<ServerReactor>(end, live_, context);
    if (!live_->Add(reactor)) return CallbackGenericService::CreateReactor(context);
    executor_.Post([acceptor = std::weak_ptr<Transport::Acceptor>(acceptor_), end, reactor,
                    method = context->method(), peer = PlainPeer(context->peer())] {
      auto call = std::make_unique<ServerCall>(end, reactor, peer);
      if (const auto accept = acceptor.lock()) (*accept)(method, std::move(call));
    });
    return reactor.get();
  }

  // Loop thread: no call is handed over afterwards.
  void Close() {
    acceptor_.reset();
    live_->Close(absl::UnavailableError("the server is shutting down"));
  }
  void WaitUntilEmpty() { live_->WaitUntilEmpty(); }

 private:
  Executor& executor_;
  const std::shared_ptr<LiveCalls> live_;
  std::shared_ptr<Transport::Acceptor> acceptor_;
};

absl::StatusOr<std::unique_ptr<Listener>> GrpcListener::Open(Executor& executor,
                                                             const Options& options,
                                                             const std::string& address,
                                                             Transport::Acceptor acceptor) {
  // gRPC would take a Unix socket away from a server that listens on it.
  RETURN_IF_ERROR(CheckListenAddress(address));
  std::unique_ptr<GrpcListener> listener(
      new GrpcListener(std::make_unique<Service>(executor, std::move(acceptor))));

  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort(address, options.credentials, &port);
  builder.RegisterCallbackGenericService(listener->service_.get());
  builder.SetMaxReceiveMessageSize(static_cast<int>(kMaxMessageBytes));
  builder.SetMaxSendMessageSize(static_cast<int>(kMaxMessageBytes));
  builder.SetResourceQuota(*options.quota);
  for (int algorithm = GRPC_COMPRESS_NONE + 1; algorithm < GRPC_COMPRESS_ALGORITHMS_COUNT;
       ++algorithm) {
    builder.SetCompressionAlgorithmSupportStatus(static_cast<grpc_compression_algorithm>(algorithm),
                                                 false);
  }
  const auto argument = [&builder](const char* name, int value) {
    builder.AddChannelArgument(name, value);
  };
  argument(GRPC_ARG_ALLOW_REUSEPORT,
           0);  // else two servers share a port, and each gets half of the calls
  argument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxStreams);
  argument(GRPC_ARG_KEEPALIVE_TIME_MS, KeepaliveTimeMilliseconds(options.failure_timeout));
  argument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, KeepaliveTimeoutMilliseconds(options.failure_timeout));
  argument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  argument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);  // clients probe as often as their own setting says
  listener->server_ = builder.BuildAndStart();
  if (listener->server_ == nullptr || port == 0) return WhyNotBound(address);

  listener->address_ = address;
  const size_t colon = address.rfind(':');
  if (!absl::StartsWith(address, "unix:") && colon != std::string::npos) {
    listener->address_ = absl::StrCat(address.substr(0, colon), ":", port);
  }
  return listener;
}

GrpcListener::GrpcListener(std::unique_ptr<Service> service) : service_(std::move(service)) {}

GrpcListener::~GrpcListener() {
  service_->Close();
  if (server_ == nullptr) return;
  server_->Shutdown(gpr_inf_past(GPR_CLOCK_MONOTONIC));
  service_->WaitUntilEmpty();
}

}  // namespace atolld
