// EtcdMachine: what this room asks of the machine that it runs on: calls to etcd, a clock, and
// threads that wait.
//
// All that blocks goes through here, so that the same store and the same leadership run over gRPC
// with threads of the system (grpc_etcd.h), and in a simulation on a virtual clock.
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
  std::vector<std::string> endpoints;  // "host:port", one at least
  // PEM, not file names; the last two may be empty. Without an authority: plain text.
  std::string authority, certificate, key;
  absl::Duration one_try = absl::Seconds(1);  // for one endpoint's answer
};

// A way to one endpoint. Each call is one try, and blocks until it is answered or `wait` is over:
// DEADLINE_EXCEEDED or UNAVAILABLE leave open whether it was done, or will be. CANCELLED: by
// Cancel. What else etcd answers is passed on. One thread's at a time, but for Cancel.
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
  // OK: there was an event, or the watch cannot go on from where it was to begin.
  virtual absl::Status Watch(const etcdserverpb::WatchCreateRequest& request,
                             absl::Duration wait) = 0;

  // Ends the call that goes on and refuses every later one. Any thread.
  virtual void Cancel() = 0;
};

// Any thread.
class EtcdMachine {
 public:
  using Clock = std::chrono::steady_clock;

  // Waits for the end of its work when it is destroyed.
  class Thread {
   public:
    virtual ~Thread() = default;
  };

  virtual ~EtcdMachine() = default;

  // Makes no call yet.
  virtual std::unique_ptr<EtcdWire> Dial(const EtcdAccess& access, const std::string& endpoint) = 0;

  virtual Clock::time_point Now() const = 0;  // monotonic
  virtual void Sleep(absl::Duration wait) = 0;

  virtual std::unique_ptr<Thread> Start(std::function<void()> work) = 0;
  // Gives `lock` up until `done` holds, which is looked at after each WakeAll, or `wait` is over.
  virtual void Await(std::unique_lock<std::mutex>& lock, absl::Duration wait,
                     const std::function<bool()>& done) = 0;
  virtual void WakeAll() = 0;
};

}  // namespace atolld
