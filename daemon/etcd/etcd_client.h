// EtcdClient: a coordinator's client of etcd. If one endpoint fails, it tries the next one.
//
// Every call has a deadline, and so does each of its tries. After a failed try the connection to
// the endpoint is dropped, because a gRPC channel would wait for many seconds before it connects
// again. Its calls block. Used by one thread at a time, except for Cancel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/etcd/etcd_machine.h"
#include "etcd/rpc.pb.h"

namespace atolld {

class EtcdClient {
 public:
  explicit EtcdClient(EtcdAccess access);
  ~EtcdClient();
  EtcdClient(const EtcdClient&) = delete;
  EtcdClient& operator=(const EtcdClient&) = delete;

  // Each of these calls asks one endpoint after another until an endpoint has answered, `patience`
  // is over, or Cancel is called. Without an answer they fail with CANCELLED after Cancel, and
  // otherwise with the last try's error: UNAVAILABLE, or DEADLINE_EXCEEDED if the outcome is
  // unknown. RESOURCE_EXHAUSTED means that etcd has no space. Other errors of etcd are returned.
  absl::StatusOr<etcdserverpb::RangeResponse> Range(const etcdserverpb::RangeRequest& request,
                                                    absl::Duration patience);
  absl::StatusOr<etcdserverpb::TxnResponse> Txn(const etcdserverpb::TxnRequest& request,
                                                absl::Duration patience);
  absl::Status Compact(int64_t revision, absl::Duration patience);

  // Grants a lease that lasts `ttl`, and returns its id.
  absl::StatusOr<int64_t> Grant(absl::Duration ttl, absl::Duration patience);
  absl::Status Revoke(int64_t lease, absl::Duration patience);
  // Fails with NOT_FOUND if the lease has ended.
  absl::Status KeepAlive(int64_t lease, absl::Duration patience);

  // Returns OK when the key has changed since `revision`, or when `patience` is over. Asks only one
  // endpoint; an error means that this could not be found out.
  absl::Status AwaitChange(const std::string& key, int64_t revision, absl::Duration patience);

  // Ends the call under way and refuses every later call. May be called from any thread.
  void Cancel();

 private:
  using Try = std::function<absl::Status(EtcdWire&, absl::Duration wait)>;

  // Returns the error with the endpoint's name added.
  absl::Status Say(const absl::Status& status) const;
  absl::Status Ask(const Try& one_try, absl::Duration patience);
  absl::Status AskOnce(const Try& one_try, absl::Duration wait);
  void Leave();  // Drops the connection and moves on to the next endpoint.

  const EtcdAccess access_;

  size_t endpoint_ = 0;
  std::unique_ptr<EtcdWire> wire_;  // The connection to the endpoint; null if there is none.

  // Guarded by mutex_.
  std::mutex mutex_;
  bool cancelled_ = false;
  EtcdWire* asking_ = nullptr;
};

}  // namespace atolld
