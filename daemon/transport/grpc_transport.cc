#include "daemon/transport/grpc_transport.h"

#include <grpcpp/server.h>

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compression/base/check.h"
#include "daemon/env/address.h"
#include "daemon/transport/channels.h"
#include "daemon/transport/grpc_listener.h"
#include "daemon/transport/reactors.h"
#include "membership/trust/access.h"

namespace atolld {
namespace {

class ClientCall final : public Call {
 public:
  ClientCall(Executor& executor, std::shared_ptr<LiveCalls> live,
             std::shared_ptr<ChannelCache> channels, PeerAddress to, std::string method,
             absl::Duration deadline)
      : address_(std::move(to.address)),
        method_(std::move(method)),
        deadline_(deadline),
        live_(std::move(live)),
        end_(std::make_shared<LoopEnd>(executor, /*reads_ahead=*/true)) {
    std::shared_ptr<grpc::Channel> channel = channels->Get(address_, {ServedBy(method_), to.peer});
    auto forget = [channels = std::move(channels), address = address_,
                   weak = std::weak_ptr<grpc::Channel>(channel)] { channels->Drop(address, weak); };
    wire_ = std::make_shared<ClientReactor>(end_, live_, std::move(channel), address_,
                                            std::move(forget));
  }

  ~ClientCall() override {
    end_->Detach();
    if (!end_->closed()) wire_->Break(absl::CancelledError(), /*gently=*/false);
  }

  void Start(Events events) override {
    if (events.takes_parts) wire_->GiveParts();
    end_->Start(wire_, std::move(events));
    if (live_->Add(wire_)) {
      wire_->Start(method_, deadline_);
    } else {
      wire_->Break(absl::UnavailableError("the transport was closed"), /*gently=*/false);
    }
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
  std::string remote() const override { return address_; }
  std::optional<Identity> identity() const override { return std::nullopt; }

 private:
  const std::string address_;
  const std::string method_;
  const absl::Duration deadline_;
  const std::shared_ptr<LiveCalls> live_;
  const std::shared_ptr<LoopEnd> end_;
  std::shared_ptr<ClientReactor> wire_;
  bool finished_ = false;
};

}  // namespace

GrpcTransport::GrpcTransport(Executor& executor, Options options)
    : executor_(executor),
      options_(std::move(options)),
      quota_("atoll"),
      channels_([this] {
        quota_.Resize(options_.memory_bytes);
        grpc::ChannelArguments arguments = ClientArguments(options_.failure_timeout);
        arguments.SetResourceQuota(quota_);
        return std::make_shared<ChannelCache>(options_.tls, std::move(arguments), options_.lanes);
      }()),
      dialled_(std::make_shared<LiveCalls>(executor_)) {
  CHECK(options_.lanes >= 1);
  QuietGrpcLog();
}

GrpcTransport::~GrpcTransport() {
  dialled_->Close(absl::UnavailableError("the transport was closed"));
  dialled_->WaitUntilEmpty();
}

absl::StatusOr<std::unique_ptr<Listener>> GrpcTransport::Listen(const std::string& address,
                                                                Acceptor acceptor) {
  GrpcListener::Options options;
  options.failure_timeout = options_.failure_timeout;
  if (options_.tls) options.tls = options_.tls->server;
  options.quota = &quota_;
  return GrpcListener::Open(executor_, options, address, std::move(acceptor));
}

std::unique_ptr<Call> GrpcTransport::Dial(const std::string& address, const std::string& method,
                                          absl::Duration deadline) {
  return std::make_unique<ClientCall>(executor_, dialled_, channels_, ParsePeerAddress(address),
                                      method, deadline);
}

}  // namespace atolld
