// Leadership: which of a run's coordinators leads it, by a key in etcd that lives as long as its
// holder keeps a lease alive.
//
// Whoever creates the key leads; the revision at which it came into being is the term's fence, and
// every write of the leader is a transaction that holds only while the key is that one. So whatever
// a former leader believes, it changes nothing. It stops by its own monotonic clock before etcd
// lets the lease go.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/etcd/etcd_client.h"
#include "daemon/etcd/etcd_machine.h"
#include "etcd/rpc.pb.h"

namespace atolld {

// One time of leading. Any thread.
class LeaderTerm {
 public:
  using Clock = EtcdMachine::Clock;

  // Over at `until`, by the machine's clock.
  LeaderTerm(std::shared_ptr<const EtcdMachine> machine, std::string key, int64_t fence,
             int64_t lease, Clock::time_point until);

  // That the election's key is the one that this term began with.
  void AddCompares(etcdserverpb::TxnRequest* request) const;
  // The same, of what a transaction read of that key.
  bool IsIn(const etcdserverpb::RangeResponse& election) const;

  const std::string& key() const { return key_; }
  int64_t fence() const { return fence_; }
  int64_t lease() const { return lease_; }

  // Another one may lead by now. Never false again.
  bool over() const;
  absl::Duration left() const;  // until it is, unless it is extended; at least 0
  void Extend(Clock::time_point until);
  void End();

 private:
  const std::shared_ptr<const EtcdMachine> machine_;
  const std::string key_;
  const int64_t fence_, lease_;
  std::atomic<Clock::rep> until_;  // of the clock's epoch
  mutable std::atomic<bool> ended_{false};
};

class Leadership {
 public:
  struct Settings {
    EtcdAccess etcd;
    std::string prefix;     // of all keys of the run; ends with '/'
    absl::Duration ttl;     // of the lease, whole seconds
    std::string address;    // what others dial, if this one leads
    std::string authority;  // a digest of the cluster's; empty: it has none
  };

  // All from a thread of its own.
  struct Events {
    std::function<void(std::shared_ptr<LeaderTerm>)> on_leading;
    std::function<void(std::shared_ptr<LeaderTerm>, std::string why)> on_lost;
    std::function<void(std::string address)> on_leader;  // another one leads
    std::function<void(std::string what)> on_trouble;    // etcd cannot be asked; empty: it can
    // Final. FAILED_PRECONDITION: the run's other coordinators have another authority.
    std::function<void(absl::Status)> on_failed;
  };

  // Begins at once.
  Leadership(Settings settings, Events events);
  ~Leadership();  // gives the lease back, so that another one leads at once

  // What the lost term began has been put down here: it may lead again. After each on_lost.
  void Release();

 private:
  struct Seen {
    std::string leader;  // empty: nobody leads
    std::string authority;
    int64_t revision = 0;
  };

  void Work();
  absl::StatusOr<Seen> Look();
  void AwaitNews(const Seen& seen);
  // Null: another one was faster.
  absl::StatusOr<std::shared_ptr<LeaderTerm>> Campaign();
  std::string Hold(LeaderTerm& term);  // why it is lost
  void Lead(const std::shared_ptr<LeaderTerm>& term);
  void NoteTrouble(const absl::Status& status);
  bool Pause(absl::Duration wait);  // false: it is to stop

  const Settings settings_;
  const Events events_;
  const std::shared_ptr<EtcdMachine> machine_;
  const std::string election_, authority_;  // keys
  EtcdClient client_;

  // The thread's own.
  std::string leader_;   // as on_leader was told
  std::string trouble_;  // as on_trouble was told

  // Guarded by mutex_.
  std::mutex mutex_;
  bool stopping_ = false;
  bool released_ = true;

  std::unique_ptr<EtcdMachine::Thread> thread_;  // last: it uses all of the others
};

}  // namespace atolld
