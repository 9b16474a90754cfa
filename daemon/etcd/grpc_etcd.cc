#include "daemon/etcd/grpc_etcd.h"

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>

#include <condition_variable>
#include <thread>
#include <utility>

#include "daemon/transport/channels.h"
#include "daemon/transport/grpc_values.h"
#include "etcd/rpc.grpc.pb.h"

namespace atolld {
namespace {

namespace rpc = ::etcdserverpb;

std::shared_ptr<grpc::Channel> MakeEtcdChannel(const EtcdAccess& access,
                                               const std::string& endpoint) {
  // Among them: the channel's connections are its own, so a new channel connects at once.
  grpc::ChannelArguments arguments = ClientArguments(access.one_try);
  arguments.SetMaxReceiveMessageSize(-1);  // rows come in pages, and etcd's limit is on requests
  arguments.SetMaxSendMessageSize(-1);
  if (access.authority.empty()) {
    return grpc::CreateCustomChannel(TargetOf(endpoint), grpc::InsecureChannelCredentials(),
                                     arguments);
  }
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = access.authority;
  options.pem_cert_chain = access.certificate;
  options.pem_private_key = access.key;
  return grpc::CreateCustomChannel(TargetOf(endpoint), grpc::SslCredentials(options), arguments);
}

class GrpcEtcdWire final : public EtcdWire {
 public:
  explicit GrpcEtcdWire(std::shared_ptr<grpc::Channel> channel) : channel_(std::move(channel)) {}

  absl::Status Range(const rpc::RangeRequest& request, absl::Duration wait,
                     rpc::RangeResponse* response) override {
    return Unary<rpc::KV>(&rpc::KV::Stub::Range, request, wait, response);
  }

  absl::Status Txn(const rpc::TxnRequest& request, absl::Duration wait,
                   rpc::TxnResponse* response) override {
    return Unary<rpc::KV>(&rpc::KV::Stub::Txn, request, wait, response);
  }

  absl::Status Compact(const rpc::CompactionRequest& request, absl::Duration wait) override {
    rpc::CompactionResponse response;
    return Unary<rpc::KV>(&rpc::KV::Stub::Compact, request, wait, &response);
  }

  absl::Status Grant(const rpc::LeaseGrantRequest& request, absl::Duration wait,
                     rpc::LeaseGrantResponse* response) override {
    return Unary<rpc::Lease>(&rpc::Lease::Stub::LeaseGrant, request, wait, response);
  }

  absl::Status Revoke(const rpc::LeaseRevokeRequest& request, absl::Duration wait) override {
    rpc::LeaseRevokeResponse response;
    return Unary<rpc::Lease>(&rpc::Lease::Stub::LeaseRevoke, request, wait, &response);
  }

  absl::Status KeepAlive(const rpc::LeaseKeepAliveRequest& request, absl::Duration wait,
                         rpc::LeaseKeepAliveResponse* response) override {
    return Ask(wait, [&](grpc::ClientContext& context) {
      const auto stub = rpc::Lease::NewStub(channel_);
      const auto stream = stub->LeaseKeepAlive(&context);
      const bool answered =
          stream->Write(request) && stream->WritesDone() && stream->Read(response);
      const grpc::Status end = stream->Finish();
      if (answered) return grpc::Status::OK;
      if (!end.ok()) return end;
      return grpc::Status(grpc::StatusCode::UNAVAILABLE, "it did not answer");
    });
  }

  absl::Status Watch(const rpc::WatchCreateRequest& request, absl::Duration wait) override {
    bool told = false;
    const absl::Status end = Ask(wait, [&](grpc::ClientContext& context) {
      rpc::WatchRequest begin;
      *begin.mutable_create_request() = request;
      const auto stub = rpc::Watch::NewStub(channel_);
      const auto stream = stub->Watch(&context);
      rpc::WatchResponse response;
      if (stream->Write(begin)) {
        while (!told && stream->Read(&response)) {
          // Cancelled: what it was to begin from is compacted.
          told = response.events_size() > 0 || response.canceled();
        }
      }
      context.TryCancel();
      return stream->Finish();
    });
    return told ? absl::OkStatus() : end;
  }

  void Cancel() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    cancelled_ = true;
    if (asking_ != nullptr) asking_->TryCancel();
  }

 private:
  template <typename Service, typename Request, typename Response>
  absl::Status Unary(grpc::Status (Service::Stub::*method)(grpc::ClientContext*, const Request&,
                                                           Response*),
                     const Request& request, absl::Duration wait, Response* response) {
    return Ask(wait, [&](grpc::ClientContext& context) {
      return (*Service::NewStub(channel_).*method)(&context, request, response);
    });
  }

  absl::Status Ask(absl::Duration wait,
                   const std::function<grpc::Status(grpc::ClientContext&)>& call) {
    grpc::ClientContext context;
    context.set_deadline(DeadlineIn(wait));
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (cancelled_) return absl::CancelledError("no longer wanted");
      asking_ = &context;
    }
    const grpc::Status status = call(context);
    const std::lock_guard<std::mutex> lock(mutex_);
    asking_ = nullptr;
    return FromGrpc(status);
  }

  const std::shared_ptr<grpc::Channel> channel_;

  // Guarded by mutex_.
  std::mutex mutex_;
  bool cancelled_ = false;
  grpc::ClientContext* asking_ = nullptr;
};

class SystemThread final : public EtcdMachine::Thread {
 public:
  explicit SystemThread(std::function<void()> work) : thread_(std::move(work)) {}
  ~SystemThread() override { thread_.join(); }

 private:
  std::thread thread_;
};

class GrpcEtcd final : public EtcdMachine {
 public:
  std::unique_ptr<EtcdWire> Dial(const EtcdAccess& access, const std::string& endpoint) override {
    QuietGrpcLog();
    return std::make_unique<GrpcEtcdWire>(MakeEtcdChannel(access, endpoint));
  }

  Clock::time_point Now() const override { return Clock::now(); }
  void Sleep(absl::Duration wait) override {
    std::this_thread::sleep_for(absl::ToChronoNanoseconds(wait));
  }

  std::unique_ptr<Thread> Start(std::function<void()> work) override {
    return std::make_unique<SystemThread>(std::move(work));
  }
  void Await(std::unique_lock<std::mutex>& lock, absl::Duration wait,
             const std::function<bool()>& done) override {
    if (wait == absl::InfiniteDuration()) return wakes_.wait(lock, done);
    wakes_.wait_for(lock, absl::ToChronoNanoseconds(wait), done);
  }
  void WakeAll() override { wakes_.notify_all(); }

 private:
  std::condition_variable_any wakes_;  // those who wait have locks of their own
};

}  // namespace

std::shared_ptr<EtcdMachine> MakeGrpcEtcd() { return std::make_shared<GrpcEtcd>(); }

}  // namespace atolld
