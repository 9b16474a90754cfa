// Leadership: decides which of a run's coordinators leads the run. It uses a key in etcd that
// exists as long as its holder keeps a lease alive.
//
// The coordinator that creates the key leads. The revision at which the key was created is the
// term's fence, and every write of the leader is a transaction that takes effect only while the key
// has this revision. So a former leader can change nothing, even if it believes that it still
// leads. By its own monotonic clock, a leader stops before etcd ends the lease.
//
// A separate thread renews the lease, so the renewal alone does not show that the coordinator's
// loop still runs. Therefore the loop calls LeaderTerm::Tick, and a term is renewed only if its
// loop has ticked since the last renewal: a coordinator whose loop hangs loses the leadership to
// another one. Before its first tick, a term is renewed for Settings::opening.
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

// One period in which a coordinator leads. Thread-safe.
class LeaderTerm {
 public:
  using Clock = EtcdMachine::Clock;

  // The term ends at `until` on the machine's clock, unless it is extended.
  LeaderTerm(std::shared_ptr<const EtcdMachine> machine, std::string key, int64_t fence,
             int64_t lease, Clock::time_point until);

  // Adds to a transaction the condition that the election's key is still the one with which this
  // term began.
  void AddCompares(etcdserverpb::TxnRequest* request) const;
  // Returns true if a transaction that has read the election's key has found the key of this term.
  bool IsIn(const etcdserverpb::RangeResponse& election) const;

  const std::string& key() const { return key_; }
  int64_t fence() const { return fence_; }
  int64_t lease() const { return lease_; }

  // Returns true if another coordinator may lead by now. Once it has returned true, it always does.
  bool over() const;
  absl::Duration left() const;  // The time until the term ends, unless it is extended; at least 0.
  void Extend(Clock::time_point until);
  void End();

  // Reports that the leader's loop runs. Call it several times in each quarter of the lease's time.
  void Tick() { ++ticks_; }
  uint64_t ticks() const { return ticks_; }

 private:
  const std::shared_ptr<const EtcdMachine> machine_;
  const std::string key_;
  const int64_t fence_, lease_;
  std::atomic<Clock::rep> until_;  // The time since the clock's epoch.
  mutable std::atomic<bool> ended_{false};
  std::atomic<uint64_t> ticks_{0};
};

class Leadership {
 public:
  struct Settings {
    EtcdAccess etcd;
    std::string prefix;     // The prefix of all keys of the run; ends with '/'.
    absl::Duration ttl;     // The time to live of the lease, in whole seconds.
    std::string address;    // The address that others dial if this coordinator leads.
    std::string authority;  // The digest of the cluster's authority; empty if there is none.
    // How long a term is renewed before its first tick. Reading the history of a large run may take
    // this long. InfiniteDuration means that the holder has no loop that ticks.
    absl::Duration opening = absl::Minutes(2);
  };

  // All callbacks run on the thread of the leadership.
  struct Events {
    std::function<void(std::shared_ptr<LeaderTerm>)> on_leading;
    std::function<void(std::shared_ptr<LeaderTerm>, std::string why)> on_lost;
    std::function<void(std::string address)> on_leader;  // Called when another coordinator leads.
    // Called when etcd does not answer, and with an empty text when it answers again.
    std::function<void(std::string what)> on_trouble;
    // Called once, when this coordinator can never lead. FAILED_PRECONDITION means that the run's
    // other coordinators have another authority.
    std::function<void(absl::Status)> on_failed;
  };

  // Begins to campaign immediately.
  Leadership(Settings settings, Events events);
  ~Leadership();  // Gives the lease back, so that another coordinator can lead immediately.

  // Call this after each on_lost, when the work of the lost term has ended. This coordinator may
  // then lead again.
  void Release();

 private:
  struct Seen {
    std::string leader;  // Empty if no coordinator leads.
    std::string authority;
    int64_t revision = 0;
  };

  void Work();
  absl::StatusOr<Seen> Look();
  void AwaitNews(const Seen& seen);
  // Tries to create the key. Returns null if another coordinator was faster.
  absl::StatusOr<std::shared_ptr<LeaderTerm>> Campaign();
  // Renews the term's lease until the term is lost. Returns the reason.
  std::string Hold(LeaderTerm& term);
  void Lead(const std::shared_ptr<LeaderTerm>& term);
  void NoteTrouble(const absl::Status& status);
  bool Pause(absl::Duration wait);  // Returns false if the thread has to stop.

  const Settings settings_;
  const Events events_;
  const std::shared_ptr<EtcdMachine> machine_;
  const std::string election_, authority_;  // The keys of the election and of the authority.
  EtcdClient client_;

  // Used only by the thread.
  std::string leader_;   // The last value passed to on_leader.
  std::string trouble_;  // The last value passed to on_trouble.

  // Guarded by mutex_.
  std::mutex mutex_;
  bool stopping_ = false;
  bool released_ = true;

  // The last member, because the thread uses all others.
  std::unique_ptr<EtcdMachine::Thread> thread_;
};

}  // namespace atolld
