// SimEtcd: a simulated etcd of three members, which coordinators reach over a network of its own,
// in the world's virtual time.
//
// A request takes effect at the instant of its arrival, in one state (EtcdState). Anything may
// happen between a coordinator and etcd: a request that arrives late, even after its sender has
// given up or was deposed; an answer that is lost after the effect; a cut; no majority for a while.
// Leases end by time; a coordinator that renews one too late learns that it has ended. While etcd
// has no majority leases do not end, and afterwards each has its full time again, as with a new
// leader of a real etcd.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "daemon/etcd/etcd_machine.h"
#include "etcd/rpc.pb.h"
#include "tests/sim/etcd_state.h"
#include "tests/sim/sim_world.h"

namespace atolld {

class SimEtcd {
 public:
  static constexpr int kMembers = 3;

  // A transaction that has taken effect.
  struct Write {
    std::string who;  // One life of one process.
    const etcdserverpb::TxnRequest& request;
    const etcdserverpb::TxnResponse& response;
  };

  // `latency` is that of each direction to a member.
  SimEtcd(SimWorld& world, uint64_t seed, absl::Duration latency);

  // For the process's present life. Its threads block, so its pool runs on them from now on.
  EtcdAccess AccessOf(SimProcess& process);
  static std::string WhoIs(const SimProcess& process);

  const EtcdState& state() const { return state_; }

  // Set what is called with every transaction that has succeeded, and with every lease that has
  // expired, while its keys still exist.
  void OnWrite(std::function<void(const Write&)> callback) { on_write_ = std::move(callback); }
  void OnLeaseOver(std::function<void(int64_t)> callback) { on_lease_over_ = std::move(callback); }

  // Faults. Each lasts until it is set back. SlowDown makes half of all transfers take up to
  // `most`; zero restores the usual time.
  void SlowDown(absl::Duration most) { slow_ = most; }
  void LoseAnswers(double share) { lost_answers_ = share; }
  // The process reaches no member. With `answers_only` its requests take effect, and only the
  // answers are lost.
  void Cut(const std::string& process, bool answers_only);
  void Heal(const std::string& process) { cuts_.erase(process); }
  // A stopped member refuses requests, or with `hangs` never answers them.
  void StopMember(int member, bool hangs) { stopped_[member] = hangs; }
  void StartMember(int member) { stopped_.erase(member); }
  // There is no majority. Half of the requests that arrive in the meantime take effect when there
  // is one again.
  void Stop() { no_majority_ = true; }
  void Resume();
  void HealAll();

  uint64_t answers_lost() const { return answers_lost_; }
  uint64_t late() const { return late_; }  // Requests that arrived after their sender had given up.

 private:
  class Wire;
  class Machine;
  struct Asked;  // One call.
  using Answer = std::function<void(const absl::Status&)>;
  using Arrive = std::function<void(const Answer&)>;

  struct Lease {
    absl::Duration ttl;
    absl::Duration end;
  };
  struct Watcher {
    std::string key;
    int64_t revision;
    Answer answer;
  };

  void Send(const std::string& process, int member, const std::shared_ptr<Asked>& asked,
            Arrive arrive);
  absl::Duration Way();
  absl::Status Txn(const std::string& who, const etcdserverpb::TxnRequest& request,
                   etcdserverpb::TxnResponse* response);
  void ExpectEnd(int64_t lease);
  void EndIfDue(int64_t lease);
  void TellWatchers();

  SimWorld& world_;
  SimRandom random_;
  const absl::Duration latency_;
  EtcdState state_;
  std::map<int64_t, Lease> leases_;
  std::vector<Watcher> watchers_;
  std::vector<std::function<void()>> queued_;  // While there is no majority.

  absl::Duration slow_;
  double lost_answers_ = 0;
  std::map<std::string, bool> cuts_;  // True if only the answers are lost.
  std::map<int, bool> stopped_;       // True if it hangs.
  bool no_majority_ = false;
  uint64_t answers_lost_ = 0;
  uint64_t late_ = 0;

  std::function<void(const Write&)> on_write_;
  std::function<void(int64_t)> on_lease_over_;
};

}  // namespace atolld
