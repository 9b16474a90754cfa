// EtcdMachine: everything that the code of this folder needs from its machine: calls to etcd, a
// clock, and threads that wait.
//
// Every call that blocks goes through this interface, so that the same code of the store and of the
// leadership runs over gRPC with the system's threads (grpc_etcd.h) and in a simulation on a
// virtual clock.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "etcd/rpc.pb.h"

namespace atolld {

class EtcdMachine;

struct EtcdAccess {
  std::shared_ptr<EtcdMachine> machine;
  std::vector<std::string> endpoints;  // The endpoints, as "host:port"; at least one.
  // The contents of PEM files, not their names. The last two may be empty. If `authority` is empty,
  // the connection is plain text.
  std::string authority, certificate, key;
  absl::Duration one_try = absl::Seconds(1);  // The time that one endpoint has for its answer.
};

// A connection to one endpoint. Each call is one try, and blocks until it is answered or `wait` is
// over. After DEADLINE_EXCEEDED and UNAVAILABLE it is unknown whether the request was carried out,
// or still will be. Cancel ends a call with CANCELLED. Other errors of etcd are returned. Used by
// one thread at a time, except for Cancel.
class EtcdWire {
 public:
  virtual ~EtcdWire() = default;

  virtual absl::Status Range(const etcdserverpb::RangeRequest& request, absl::Duration wait,
                             etcdserverpb::RangeResponse* response) = 0;
  virtual absl::Status Txn(const etcdserverpb::TxnRequest& request, absl::Duration wait,
                           etcdserverpb::TxnResponse* response) = 0;
  virtual absl::Status Compact(const etcdserverpb::CompactionRequest& request,
                               absl::Duration wait) = 0;
  virtual absl::Status Grant(const etcdserverpb::LeaseGrantRequest& request, absl::Duration wait,
                             etcdserverpb::LeaseGrantResponse* response) = 0;
  virtual absl::Status Revoke(const etcdserverpb::LeaseRevokeRequest& request,
                              absl::Duration wait) = 0;
  virtual absl::Status KeepAlive(const etcdserverpb::LeaseKeepAliveRequest& request,
                                 absl::Duration wait,
                                 etcdserverpb::LeaseKeepAliveResponse* response) = 0;
  // Returns OK if there was an event, or if the watch cannot begin at the requested revision.
  virtual absl::Status Watch(const etcdserverpb::WatchCreateRequest& request,
                             absl::Duration wait) = 0;

  // Ends the call under way and refuses every later call. May be called from any thread.
  virtual void Cancel() = 0;
};

// May be called from any thread.
class EtcdMachine {
 public:
  using Clock = std::chrono::steady_clock;

  // A thread. The destructor waits until the thread's work has ended.
  class Thread {
   public:
    virtual ~Thread() = default;
  };

  virtual ~EtcdMachine() = default;

  // Returns a connection to the endpoint. Makes no call yet.
  virtual std::unique_ptr<EtcdWire> Dial(const EtcdAccess& access, const std::string& endpoint) = 0;

  virtual Clock::time_point Now() const = 0;  // Returns monotonic time.
  virtual void Sleep(absl::Duration wait) = 0;

  virtual std::unique_ptr<Thread> Start(std::function<void()> work) = 0;
  // Waits, with `lock` released, until `done` returns true, which is checked after each WakeAll, or
  // until `wait` is over.
  virtual void Await(std::unique_lock<std::mutex>& lock, absl::Duration wait,
                     const std::function<bool()>& done) = 0;
  virtual void WakeAll() = 0;
};

}  // namespace atolld
