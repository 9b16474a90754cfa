// SimEtcd: a simulated etcd of three members, in the world's virtual time. Coordinators reach it
// over a separate network.
//
// A request takes effect at the instant of its arrival, in one state (EtcdState). A request may
// arrive late, even after its sender has given up or was deposed. An answer may be lost after the
// effect. The network may be cut, and etcd may have no majority for a while. Leases end by time; a
// coordinator that renews one too late learns that it has ended. While etcd has no majority leases
// do not end, and afterwards each has its full time again, as with a new leader of a real etcd.
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
    std::string who;  // the sender, as one life of one process
    const etcdserverpb::TxnRequest& request;
    const etcdserverpb::TxnResponse& response;
  };

  // `latency` is the latency to a member, in each direction.
  SimEtcd(SimWorld& world, uint64_t seed, absl::Duration latency);

  // Returns the access for the process's present life. Calls of etcd block, so from now on the
  // process's pool runs on simulated threads.
  EtcdAccess AccessOf(SimProcess& process);
  static std::string WhoIs(const SimProcess& process);

  const EtcdState& state() const { return state_; }

  // OnWrite sets the function that is called with every transaction that has succeeded. OnLeaseOver
  // sets the one that is called with every lease that has expired, while its keys still exist.
  void OnWrite(std::function<void(const Write&)> callback) { on_write_ = std::move(callback); }
  void OnLeaseOver(std::function<void(int64_t)> callback) { on_lease_over_ = std::move(callback); }

  // The functions below make faults, which last until they are undone. SlowDown makes half of all
  // transfers take up to `most`; zero restores the usual time.
  void SlowDown(absl::Duration most) { slow_ = most; }
  void LoseAnswers(double share) { lost_answers_ = share; }
  // Cuts the process off from all members. With `answers_only` its requests take effect and only
  // the answers are lost.
  void Cut(const std::string& process, bool answers_only);
  void Heal(const std::string& process) { cuts_.erase(process); }
  // Stops a member, which then refuses requests or, with `hangs`, never answers them.
  void StopMember(int member, bool hangs) { stopped_[member] = hangs; }
  void StartMember(int member) { stopped_.erase(member); }
  // Takes away etcd's majority. Half of the requests that arrive in the meantime take effect when
  // Resume restores it.
  void Stop() { no_majority_ = true; }
  void Resume();
  void HealAll();

  uint64_t answers_lost() const { return answers_lost_; }
  uint64_t late() const { return late_; }  // Requests that arrived after their sender had given up.

 private:
  class Wire;
  class Machine;
  struct Asked;  // one call
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
  std::vector<std::function<void()>> queued_;  // requests that wait for a majority

  absl::Duration slow_;
  double lost_answers_ = 0;
  std::map<std::string, bool> cuts_;  // true if only the answers are lost
  std::map<int, bool> stopped_;       // true if the member hangs
  bool no_majority_ = false;
  uint64_t answers_lost_ = 0;
  uint64_t late_ = 0;

  std::function<void(const Write&)> on_write_;
  std::function<void(int64_t)> on_lease_over_;
};

}  // namespace atolld
