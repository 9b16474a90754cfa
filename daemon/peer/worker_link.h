// WorkerLink: a peer's end of what it says to its worker and hears from it.
//
// It gives the worker the run and the shared memory, sees that what it trains is what the run
// trains, has it make the initial parameters (or takes a branch's from its file), hands what it
// says of the rounds to RoundRunner, and tells the coordinator whether there is a worker. Loop
// thread.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "atoll/v1/membership.pb.h"
#include "atoll/v1/replica.pb.h"
#include "atoll/v1/run.pb.h"
#include "atoll/v1/worker.pb.h"
#include "daemon/env/env.h"
#include "daemon/peer/replica_keeper.h"
#include "daemon/peer/round_runner.h"
#include "daemon/peer/worker.h"

namespace atolld {

class WorkerLink {
 public:
  struct Events {
    std::function<void(const v1::PeerMessage&)> send;  // to the coordinator, if there is one now
    std::function<void(absl::Status)> on_broken;       // no worker can be of use here
    std::function<void(v1::RunSpec*)> list_files;      // of this machine, into a run's first record
  };

  WorkerLink(Env env, Worker& worker, ReplicaKeeper& keeper, RoundRunner& runner, Events events);

  bool configured() const { return configured_.has_value(); }  // a worker runs, and fits
  std::string device() const { return configured_ ? configured_->device() : ""; }

  // Version 0 can be made here from this branch file, whose head it is. Before the first Welcome.
  void SetBranch(const std::string& path, const v1::SnapshotInfo& head);

  // At each Welcome: the run as it is known by now, and whether the coordinator has its version 0.
  void Follow(const v1::RunSpec& spec, bool genesis_recorded);
  // Why the worker is not started yet; the coordinator is told.
  void Hold(const std::string& why);
  void Start();  // the worker; once, after the first of them
  // The machine's owner does not let it train: the worker ends, or is not started, and the
  // coordinator is told why. `why` may change. Allow takes it back.
  void HoldBack(const std::string& why);
  void Allow();
  bool held_back() const { return held_back_; }
  // After a later one: tells both what they may have missed.
  void Repeat();

  // The run has no version 0 yet: has the worker make it, or tells the one that is here.
  void MakeInitialState();
  void OnOpened();  // the replica
  void OnDropped() { making_initial_state_ = false; }

 private:
  void OnConfigured(const v1::WorkerConfigured& configured);
  void OnMessage(const v1::WorkerMessage& message);
  void OnLost(const absl::Status& why);
  std::string MisfitOf(const v1::WorkerConfigured& worker) const;
  void CreateState();
  void CreateBranch();
  void SayCannotMake();
  v1::Genesis GenesisHere() const;
  void SendInitialState();
  void SendReady();
  void SendLost(const absl::Status& why);

  const Env env_;
  Worker& worker_;
  ReplicaKeeper& keeper_;
  RoundRunner& runner_;
  const Events events_;

  std::string branch_path_;                   // empty: no branch file is here
  std::optional<v1::Genesis> branch_parent_;  // as that file has it

  v1::RunSpec spec_;
  bool genesis_recorded_ = false;  // by the coordinator, at its last Welcome
  std::optional<v1::WorkerConfigured> configured_;
  // Why the last worker ended; OK: one runs, or none has ended yet. CANCELLED: its owner's will.
  absl::Status lost_;
  bool started_ = false;
  bool held_back_ = false;
  bool making_initial_state_ = false;
  CallbackGuard guard_;
};

}  // namespace atolld
