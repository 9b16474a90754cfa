// EtcdClient: what a coordinator asks of etcd, over gRPC, with the next of several endpoints tried
// when one fails.
//
// Every call has a deadline, and so has each try of it. A failed try costs the endpoint its
// channel: a kept one would wait out gRPC's own back-off before it connects again, which takes many
// seconds. Blocking. One thread's at a time, but for Cancel.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "etcd/rpc.pb.h"

namespace grpc {
class Channel;
class ClientContext;
class Status;
}  // namespace grpc

namespace atolld {

struct EtcdAccess {
  std::vector<std::string> endpoints;  // "host:port", one at least
  // PEM, not file names; the last two may be empty. Without an authority: plain text.
  std::string authority, certificate, key;
  absl::Duration one_try = absl::Seconds(1);  // for one endpoint's answer
};

class EtcdClient {
 public:
  explicit EtcdClient(EtcdAccess access);
  ~EtcdClient();
  EtcdClient(const EtcdClient&) = delete;
  EtcdClient& operator=(const EtcdClient&) = delete;

  // Each asks one endpoint after another until one has answered, `patience` is over or Cancel. The
  // error is then the last try's: UNAVAILABLE, or DEADLINE_EXCEEDED with the outcome unknown;
  // CANCELLED. RESOURCE_EXHAUSTED: etcd has no space. What else etcd answers is passed on.
  absl::StatusOr<etcdserverpb::RangeResponse> Range(const etcdserverpb::RangeRequest& request,
                                                    absl::Duration patience);
  absl::StatusOr<etcdserverpb::TxnResponse> Txn(const etcdserverpb::TxnRequest& request,
                                                absl::Duration patience);
  absl::Status Compact(int64_t revision, absl::Duration patience);

  // A lease of so many seconds; its id.
  absl::StatusOr<int64_t> Grant(absl::Duration ttl, absl::Duration patience);
  absl::Status Revoke(int64_t lease, absl::Duration patience);
  // NOT_FOUND: the lease has ended.
  absl::Status KeepAlive(int64_t lease, absl::Duration patience);

  // Returns OK when the key has changed since `revision`, or `patience` is over. Asks one endpoint
  // only; an error means that it cannot tell.
  absl::Status AwaitChange(const std::string& key, int64_t revision, absl::Duration patience);

  // Ends the call that goes on and refuses every later one. Any thread.
  void Cancel();

 private:
  using Try =
      std::function<grpc::Status(const std::shared_ptr<grpc::Channel>&, grpc::ClientContext&)>;

  // What went wrong at an endpoint, with its name.
  absl::Status Say(const grpc::Status& status) const;
  absl::Status Ask(const Try& one_try, absl::Duration patience);
  grpc::Status AskOnce(const Try& one_try, absl::Duration wait);
  void Leave();  // the endpoint

  const EtcdAccess access_;

  size_t endpoint_ = 0;
  std::shared_ptr<grpc::Channel> channel_;  // to it; null: none yet

  // Guarded by mutex_.
  std::mutex mutex_;
  bool cancelled_ = false;
  grpc::ClientContext* asking_ = nullptr;
};

}  // namespace atolld
