// WorkerEvaluations: passes shares of evaluations to this peer's worker and the answers to the
// coordinator.
//
// Law: the parameters must not change while the worker reads them, so the replica commits nothing
// until every share is answered. If commits wait for longer than failure_timeout, the shares are
// given up, because the run does not wait for a slow worker. Used on the loop thread.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/time/time.h"
#include "atoll/v1/membership.pb.h"
#include "atoll/v1/worker.pb.h"
#include "daemon/env/env.h"
#include "daemon/peer/replica_keeper.h"
#include "daemon/peer/worker.h"

namespace atolld {

class WorkerEvaluations {
 public:
  using Send = std::function<void(const v1::PeerMessage&)>;  // Sends to the coordinator.

  WorkerEvaluations(Env env, ReplicaKeeper& keeper, Worker& worker, Send send)
      : env_(env), keeper_(keeper), worker_(worker), send_(std::move(send)) {}

  void SetFailureTimeout(absl::Duration timeout) { failure_timeout_ = timeout; }

  // Called when the coordinator asks for a share. The share is ignored if there is no worker or the
  // replica is already past its version; it waits if the replica has not reached that version yet.
  void OnEvaluate(const v1::Evaluate& evaluate, bool worker_ready);
  // Called when the replica has moved. Shares that have waited for its version may begin.
  void OnMoved(bool worker_ready);
  // Called with the worker's answer. An answer that was not asked for is ignored.
  void OnEvaluated(const v1::WorkerEvaluated& evaluated);
  // Called with the number of windows of a share that the worker has evaluated so far.
  void OnProgress(uint64_t evaluated) { evaluated_ = evaluated; }

  // Called when the worker or the replica is lost. Gives up all shares.
  void GiveUp();
  // Called when the Session has ended. The coordinator asks again in the next Session.
  void ForgetWaiting() { waiting_.clear(); }

  bool under_way() const { return !asked_.empty(); }
  uint64_t evaluated() const { return under_way() ? evaluated_ : 0; }

 private:
  void Watch(uint64_t version);

  const Env env_;
  ReplicaKeeper& keeper_;
  Worker& worker_;
  const Send send_;

  absl::Duration failure_timeout_ = absl::Seconds(10);
  std::vector<v1::Evaluate> asked_;  // The shares that the worker was given.
  // The shares of versions that the replica has not reached yet.
  std::vector<v1::Evaluate> waiting_;
  uint64_t evaluated_ = 0;
  CallbackGuard guard_;
};

}  // namespace atolld
