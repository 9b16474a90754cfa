#include "daemon/transport/grpc_listener.h"

#include <grpc/grpc.h>
#include <grpcpp/server_builder.h>

#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "compression/base/check.h"
#include "compression/base/status_macros.h"
#include "daemon/transport/bind_probe.h"
#include "daemon/transport/channels.h"
#include "daemon/transport/front_door.h"
#include "daemon/transport/grpc_transport.h"
#include "daemon/transport/reactors.h"
#include "daemon/transport/tls.h"
#include "membership/trust/access.h"

namespace atolld {
namespace {

// Streams that one connection may have open: an exchange needs one a pair of peers, a joiner a few.
constexpr int kMaxStreams = 256;

// Whoever connects and does not shake hands holds a descriptor for so long.
constexpr int kHandshakeMilliseconds = 10000;

// "ipv4:127.0.0.1:80", "ipv6:%5B::1%5D:80" or "unix:..." as people write addresses.
std::string PlainPeer(absl::string_view peer) {
  if (!absl::ConsumePrefix(&peer, "ipv4:")) absl::ConsumePrefix(&peer, "ipv6:");
  return absl::StrReplaceAll(peer, {{"%5B", "["}, {"%5D", "]"}, {"%25", "%"}});
}

class ServerCall final : public Call {
 public:
  ServerCall(std::shared_ptr<LoopEnd> end, std::shared_ptr<Wire> wire, std::string remote,
             std::optional<Identity> identity)
      : end_(std::move(end)),
        wire_(std::move(wire)),
        remote_(std::move(remote)),
        identity_(std::move(identity)) {}

  ~ServerCall() override {
    end_->Detach();
    if (end_->closed() && end_->closed_status().ok()) {
      // No further callback would come, so the owner cannot wait for what it has queued.
      wire_->End(absl::OkStatus());
    } else {
      wire_->Break(absl::CancelledError("the server dropped the call"), /*gently=*/false);
    }
  }

  void Start(Events events) override {
    if (events.takes_parts) wire_->GiveParts();
    end_->Start(wire_, std::move(events));
  }
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
  std::optional<Identity> identity() const override { return identity_; }

 private:
  const std::shared_ptr<LoopEnd> end_;
  const std::shared_ptr<Wire> wire_;
  const std::string remote_;
  const std::optional<Identity> identity_;
  bool finished_ = false;
};

// Ends a call that has no right to be made; nothing of it is read.
class RefusingReactor final : public grpc::ServerGenericBidiReactor {
 public:
  explicit RefusingReactor(const absl::Status& why) { Finish(ToGrpc(why)); }
  void OnDone() override { delete this; }
};

}  // namespace

class GrpcListener::Service final : public grpc::CallbackGenericService {
 public:
  Service(Executor& executor, bool certificates, Transport::Acceptor acceptor)
      : executor_(executor),
        certificates_(certificates),
        live_(std::make_shared<LiveCalls>(executor_)),
        acceptor_(std::make_shared<Transport::Acceptor>(std::move(acceptor))) {}

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    std::optional<Identity> identity;
    if (certificates_) {
      const absl::StatusOr<Identity> caller = reader_.Read(*context->auth_context());
      const absl::Status allowed =
          caller.ok() ? CheckAccess(*caller, context->method()) : caller.status();
      if (!allowed.ok()) return new RefusingReactor(allowed);
      identity = *caller;
    }
    auto end = std::make_shared<LoopEnd>(executor_, /*reads_ahead=*/false);
    auto reactor = std::make_shared<ServerReactor>(end, live_, context);
    if (!live_->Add(reactor)) return CallbackGenericService::CreateReactor(context);
    executor_.Post([acceptor = std::weak_ptr<Transport::Acceptor>(acceptor_), end, reactor,
                    method = context->method(), peer = PlainPeer(context->peer()),
                    identity = std::move(identity)] {
      auto call = std::make_unique<ServerCall>(end, reactor, peer, identity);
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
  const bool certificates_;  // every caller has shown one
  IdentityReader reader_;
  const std::shared_ptr<LiveCalls> live_;
  std::shared_ptr<Transport::Acceptor> acceptor_;
};

absl::StatusOr<std::unique_ptr<Listener>> GrpcListener::Open(Executor& executor,
                                                             const Options& options,
                                                             const std::string& address,
                                                             Transport::Acceptor acceptor) {
  // gRPC would take a Unix socket away from a server that listens on it.
  RETURN_IF_ERROR(CheckListenAddress(address));
  const bool unix_socket = absl::StartsWith(address, "unix:");
  const bool certificates = options.tls != nullptr && !unix_socket;
  std::unique_ptr<GrpcListener> listener(
      new GrpcListener(std::make_unique<Service>(executor, certificates, std::move(acceptor))));

  grpc::ServerBuilder builder;
  const auto credentials = certificates ? options.tls : grpc::InsecureServerCredentials();
  std::unique_ptr<FrontDoor::Taker> taker;
  if (unix_socket) {
    builder.AddListeningPort(address, credentials);
  } else {
    ASSIGN_OR_RETURN(listener->door_, FrontDoor::Open(address));
    taker = builder.experimental().AddExternalConnectionAcceptor(
        grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, credentials);
  }
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
  argument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxStreams);
  argument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeMilliseconds);
  argument(GRPC_ARG_KEEPALIVE_TIME_MS, KeepaliveTimeMilliseconds(options.failure_timeout));
  argument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, KeepaliveTimeoutMilliseconds(options.failure_timeout));
  argument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  argument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);  // clients probe as often as their own setting says
  listener->server_ = builder.BuildAndStart();
  listener->address_ = address;
  if (unix_socket) {
    if (listener->server_ == nullptr) return WhyNotBound(address);
    RETURN_IF_ERROR(MakeSocketPrivate(address));
    return listener;
  }
  if (listener->server_ == nullptr) return absl::UnknownError("gRPC cannot serve " + address);
  listener->door_->Start(std::move(taker));
  listener->address_ =
      absl::StrCat(address.substr(0, address.rfind(':')), ":", listener->door_->port());
  return listener;
}

GrpcListener::GrpcListener(std::unique_ptr<Service> service) : service_(std::move(service)) {}

GrpcListener::~GrpcListener() {
  door_.reset();
  service_->Close();
  if (server_ == nullptr) return;
  server_->Shutdown(gpr_inf_past(GPR_CLOCK_MONOTONIC));
  service_->WaitUntilEmpty();
}

}  // namespace atolld
