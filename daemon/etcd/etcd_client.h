// EtcdClient: what a coordinator asks of etcd, with the next of several endpoints tried when one
// fails.
//
// Every call has a deadline, and so has each try of it. A failed try costs the endpoint its way: a
// channel of gRPC that is kept would wait out a back-off of many seconds before it connects again.
// Blocking. One thread's at a time, but for Cancel.
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
  using Try = std::function<absl::Status(EtcdWire&, absl::Duration wait)>;

  // What went wrong at an endpoint, with its name.
  absl::Status Say(const absl::Status& status) const;
  absl::Status Ask(const Try& one_try, absl::Duration patience);
  absl::Status AskOnce(const Try& one_try, absl::Duration wait);
  void Leave();  // the endpoint

  const EtcdAccess access_;

  size_t endpoint_ = 0;
  std::unique_ptr<EtcdWire> wire_;  // to it; null: none yet

  // Guarded by mutex_.
  std::mutex mutex_;
  bool cancelled_ = false;
  EtcdWire* asking_ = nullptr;
};

}  // namespace atolld
