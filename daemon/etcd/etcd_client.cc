#include "daemon/etcd/etcd_client.h"

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compression/base/check.h"
#include "compression/base/status_macros.h"
#include "daemon/transport/channels.h"
#include "daemon/transport/grpc_values.h"
#include "etcd/rpc.grpc.pb.h"

namespace atolld {
namespace {

namespace rpc = ::etcdserverpb;

using Clock = std::chrono::steady_clock;

// Between two rounds through all endpoints.
constexpr std::chrono::milliseconds kPause(50);

absl::Duration Until(Clock::time_point end) { return absl::FromChrono(end - Clock::now()); }

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

// Another endpoint may do better.
bool IsTheEndpoints(grpc::StatusCode code) {
  return code == grpc::StatusCode::UNAVAILABLE || code == grpc::StatusCode::DEADLINE_EXCEEDED ||
         code == grpc::StatusCode::CANCELLED || code == grpc::StatusCode::INTERNAL ||
         code == grpc::StatusCode::UNKNOWN;
}

}  // namespace

EtcdClient::EtcdClient(EtcdAccess access) : access_(std::move(access)) {
  CHECK(!access_.endpoints.empty());
  QuietGrpcLog();
}

EtcdClient::~EtcdClient() = default;

void EtcdClient::Cancel() {
  const std::lock_guard<std::mutex> lock(mutex_);
  cancelled_ = true;
  if (asking_ != nullptr) asking_->TryCancel();
}

void EtcdClient::Leave() {
  channel_.reset();
  endpoint_ = (endpoint_ + 1) % access_.endpoints.size();
}

absl::Status EtcdClient::Say(const grpc::Status& status) const {
  return absl::Status(
      FromGrpc(status).code(),
      absl::StrCat("etcd at ", access_.endpoints[endpoint_], ": ", status.error_message()));
}

grpc::Status EtcdClient::AskOnce(const Try& one_try, absl::Duration wait) {
  grpc::ClientContext context;
  context.set_deadline(DeadlineIn(wait));
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (cancelled_) return grpc::Status(grpc::StatusCode::CANCELLED, "no longer wanted");
    asking_ = &context;
  }
  if (channel_ == nullptr) channel_ = MakeEtcdChannel(access_, access_.endpoints[endpoint_]);
  const grpc::Status status = one_try(channel_, context);
  const std::lock_guard<std::mutex> lock(mutex_);
  asking_ = nullptr;
  return status;
}

absl::Status EtcdClient::Ask(const Try& one_try, absl::Duration patience) {
  const Clock::time_point end = Clock::now() + absl::ToChronoNanoseconds(patience);
  for (size_t tries = 1;; ++tries) {
    const grpc::Status status = AskOnce(one_try, std::min(access_.one_try, Until(end)));
    if (status.ok()) return absl::OkStatus();
    const absl::Status said = Say(status);
    if (!IsTheEndpoints(status.error_code())) return said;
    Leave();
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (cancelled_) return absl::CancelledError(said.message());
    }
    if (tries % access_.endpoints.size() == 0) std::this_thread::sleep_for(kPause);
    if (Clock::now() >= end) return said;
  }
}

absl::StatusOr<rpc::RangeResponse> EtcdClient::Range(const rpc::RangeRequest& request,
                                                     absl::Duration patience) {
  rpc::RangeResponse response;
  RETURN_IF_ERROR(Ask(
      [&](const auto& channel, grpc::ClientContext& context) {
        response.Clear();
        return rpc::KV::NewStub(channel)->Range(&context, request, &response);
      },
      patience));
  return response;
}

absl::StatusOr<rpc::TxnResponse> EtcdClient::Txn(const rpc::TxnRequest& request,
                                                 absl::Duration patience) {
  rpc::TxnResponse response;
  RETURN_IF_ERROR(Ask(
      [&](const auto& channel, grpc::ClientContext& context) {
        response.Clear();
        return rpc::KV::NewStub(channel)->Txn(&context, request, &response);
      },
      patience));
  return response;
}

absl::Status EtcdClient::Compact(int64_t revision, absl::Duration patience) {
  rpc::CompactionRequest request;
  request.set_revision(revision);
  return Ask(
      [&](const auto& channel, grpc::ClientContext& context) {
        rpc::CompactionResponse response;
        return rpc::KV::NewStub(channel)->Compact(&context, request, &response);
      },
      patience);
}

absl::StatusOr<int64_t> EtcdClient::Grant(absl::Duration ttl, absl::Duration patience) {
  rpc::LeaseGrantRequest request;
  request.set_ttl(absl::ToInt64Seconds(absl::Ceil(ttl, absl::Seconds(1))));
  rpc::LeaseGrantResponse response;
  RETURN_IF_ERROR(Ask(
      [&](const auto& channel, grpc::ClientContext& context) {
        response.Clear();
        return rpc::Lease::NewStub(channel)->LeaseGrant(&context, request, &response);
      },
      patience));
  if (!response.error().empty()) return absl::UnavailableError(response.error());
  return response.id();
}

absl::Status EtcdClient::Revoke(int64_t lease, absl::Duration patience) {
  rpc::LeaseRevokeRequest request;
  request.set_id(lease);
  return Ask(
      [&](const auto& channel, grpc::ClientContext& context) {
        rpc::LeaseRevokeResponse response;
        return rpc::Lease::NewStub(channel)->LeaseRevoke(&context, request, &response);
      },
      patience);
}

absl::Status EtcdClient::KeepAlive(int64_t lease, absl::Duration patience) {
  rpc::LeaseKeepAliveRequest request;
  request.set_id(lease);
  rpc::LeaseKeepAliveResponse response;
  RETURN_IF_ERROR(Ask(
      [&](const auto& channel, grpc::ClientContext& context) {
        response.Clear();
        const auto stub = rpc::Lease::NewStub(channel);
        const auto stream = stub->LeaseKeepAlive(&context);
        const bool answered =
            stream->Write(request) && stream->WritesDone() && stream->Read(&response);
        const grpc::Status end = stream->Finish();
        if (answered) return grpc::Status::OK;
        if (!end.ok()) return end;
        return grpc::Status(grpc::StatusCode::UNAVAILABLE, "it did not answer");
      },
      patience));
  if (response.ttl() > 0) return absl::OkStatus();
  return absl::NotFoundError("the lease has ended");
}

absl::Status EtcdClient::AwaitChange(const std::string& key, int64_t revision,
                                     absl::Duration patience) {
  rpc::WatchRequest request;
  request.mutable_create_request()->set_key(key);
  request.mutable_create_request()->set_start_revision(revision + 1);
  bool seen = false, cut = false;
  const grpc::Status status = AskOnce(
      [&](const auto& channel, grpc::ClientContext& context) {
        const auto stub = rpc::Watch::NewStub(channel);
        const auto stream = stub->Watch(&context);
        rpc::WatchResponse response;
        if (stream->Write(request)) {
          while (!seen && !cut && stream->Read(&response)) {
            seen = response.events_size() > 0;
            cut = response.canceled();  // what it was to begin from is compacted: look again
          }
        }
        context.TryCancel();
        return stream->Finish();
      },
      patience);
  const bool over = status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED;
  if (seen || cut || over) return absl::OkStatus();
  const absl::Status said = Say(status);
  Leave();
  return said;
}

}  // namespace atolld
