#include "daemon/etcd/etcd_client.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compression/base/check.h"
#include "compression/base/status_macros.h"

namespace atolld {
namespace {

namespace rpc = ::etcdserverpb;

using Clock = EtcdMachine::Clock;

// The time between two rounds through all endpoints.
constexpr absl::Duration kPause = absl::Milliseconds(50);

// Returns true if another endpoint may do better.
bool IsTheEndpoints(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ||
         absl::IsCancelled(status) || absl::IsInternal(status) || absl::IsUnknown(status);
}

// Returns a try that makes this call with an empty response.
template <typename Request, typename Response>
auto TryOf(absl::Status (EtcdWire::*call)(const Request&, absl::Duration, Response*),
           const Request& request, Response* response) {
  return [call, &request, response](EtcdWire& wire, absl::Duration wait) {
    response->Clear();
    return (wire.*call)(request, wait, response);
  };
}

}  // namespace

EtcdClient::EtcdClient(EtcdAccess access) : access_(std::move(access)) {
  CHECK(access_.machine != nullptr);
  CHECK(!access_.endpoints.empty());
}

EtcdClient::~EtcdClient() = default;

void EtcdClient::Cancel() {
  const std::lock_guard<std::mutex> lock(mutex_);
  cancelled_ = true;
  if (asking_ != nullptr) asking_->Cancel();
}

void EtcdClient::Leave() {
  wire_.reset();
  endpoint_ = (endpoint_ + 1) % access_.endpoints.size();
}

absl::Status EtcdClient::Say(const absl::Status& status) const {
  return absl::Status(status.code(), absl::StrCat("etcd at ", access_.endpoints[endpoint_], ": ",
                                                  status.message()));
}

absl::Status EtcdClient::AskOnce(const Try& one_try, absl::Duration wait) {
  if (wire_ == nullptr) wire_ = access_.machine->Dial(access_, access_.endpoints[endpoint_]);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (cancelled_) return absl::CancelledError("no longer wanted");
    asking_ = wire_.get();
  }
  const absl::Status status = one_try(*wire_, wait);
  const std::lock_guard<std::mutex> lock(mutex_);
  asking_ = nullptr;
  return status;
}

absl::Status EtcdClient::Ask(const Try& one_try, absl::Duration patience) {
  EtcdMachine& machine = *access_.machine;
  const Clock::time_point end = machine.Now() + absl::ToChronoNanoseconds(patience);
  for (size_t tries = 1;; ++tries) {
    const absl::Duration left = absl::FromChrono(end - machine.Now());
    const absl::Status status = AskOnce(one_try, std::min(access_.one_try, left));
    if (status.ok()) return status;
    const absl::Status said = Say(status);
    if (!IsTheEndpoints(status)) return said;
    Leave();
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (cancelled_) return absl::CancelledError(said.message());
    }
    if (tries % access_.endpoints.size() == 0) machine.Sleep(kPause);
    if (machine.Now() >= end) return said;
  }
}

absl::StatusOr<rpc::RangeResponse> EtcdClient::Range(const rpc::RangeRequest& request,
                                                     absl::Duration patience) {
  rpc::RangeResponse response;
  RETURN_IF_ERROR(Ask(TryOf(&EtcdWire::Range, request, &response), patience));
  return response;
}

absl::StatusOr<rpc::TxnResponse> EtcdClient::Txn(const rpc::TxnRequest& request,
                                                 absl::Duration patience) {
  rpc::TxnResponse response;
  RETURN_IF_ERROR(Ask(TryOf(&EtcdWire::Txn, request, &response), patience));
  return response;
}

absl::Status EtcdClient::Compact(int64_t revision, absl::Duration patience) {
  rpc::CompactionRequest request;
  request.set_revision(revision);
  return Ask([&](EtcdWire& wire, absl::Duration wait) { return wire.Compact(request, wait); },
             patience);
}

absl::StatusOr<int64_t> EtcdClient::Grant(absl::Duration ttl, absl::Duration patience) {
  rpc::LeaseGrantRequest request;
  request.set_ttl(absl::ToInt64Seconds(absl::Ceil(ttl, absl::Seconds(1))));
  rpc::LeaseGrantResponse response;
  RETURN_IF_ERROR(Ask(TryOf(&EtcdWire::Grant, request, &response), patience));
  if (!response.error().empty()) return absl::UnavailableError(response.error());
  return response.id();
}

absl::Status EtcdClient::Revoke(int64_t lease, absl::Duration patience) {
  rpc::LeaseRevokeRequest request;
  request.set_id(lease);
  return Ask([&](EtcdWire& wire, absl::Duration wait) { return wire.Revoke(request, wait); },
             patience);
}

absl::Status EtcdClient::KeepAlive(int64_t lease, absl::Duration patience) {
  rpc::LeaseKeepAliveRequest request;
  request.set_id(lease);
  rpc::LeaseKeepAliveResponse response;
  RETURN_IF_ERROR(Ask(TryOf(&EtcdWire::KeepAlive, request, &response), patience));
  if (response.ttl() > 0) return absl::OkStatus();
  return absl::NotFoundError("the lease has ended");
}

absl::Status EtcdClient::AwaitChange(const std::string& key, int64_t revision,
                                     absl::Duration patience) {
  rpc::WatchCreateRequest request;
  request.set_key(key);
  request.set_start_revision(revision + 1);
  const absl::Status status = AskOnce(
      [&](EtcdWire& wire, absl::Duration wait) { return wire.Watch(request, wait); }, patience);
  if (status.ok() || absl::IsDeadlineExceeded(status)) return absl::OkStatus();
  const absl::Status said = Say(status);
  Leave();
  return said;
}

}  // namespace atolld
