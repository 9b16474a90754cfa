// WorkerLink: sends a peer's messages to its worker and handles the worker's answers.
//
// It gives the worker the run and the shared memory, checks that the worker's model and data are
// the run's, lets it make the initial parameters (or takes them from a branch file), hands its
// messages about rounds to RoundRunner, and tells the coordinator whether there is a worker. Used
// on the loop thread.
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
    // Sends to the coordinator; does nothing if none is connected.
    std::function<void(const v1::PeerMessage&)> send;
    // Called when no worker can be used on this machine.
    std::function<void(absl::Status)> on_broken;
    // Adds this machine's files to the spec of a run whose version 0 this peer makes.
    std::function<void(v1::RunSpec*)> list_files;
  };

  WorkerLink(Env env, Worker& worker, ReplicaKeeper& keeper, RoundRunner& runner, Events events);

  // True if a worker runs and fits the run.
  bool configured() const { return configured_.has_value(); }
  std::string device() const { return configured_ ? configured_->device() : ""; }

  // Sets the branch file from which this peer can make version 0, and the file's head. Called
  // before the first Welcome.
  void SetBranch(const std::string& path, const v1::SnapshotInfo& head);

  // Called at each Welcome with the run's current spec. `genesis_recorded` is true if the
  // coordinator has recorded the run's version 0.
  void Follow(const v1::RunSpec& spec, bool genesis_recorded);
  // Tells the coordinator why the worker is not started yet.
  void Hold(const std::string& why);
  void Start();  // Starts the worker; called once, after the first Follow.
  // Called when the machine's owner does not let this peer train. Ends the worker, or does not
  // start it, and tells the coordinator why. It may be called again with another `why`. Allow ends
  // this state.
  void HoldBack(const std::string& why);
  void Allow();
  bool held_back() const { return held_back_; }
  // Called after a later Welcome: tells the coordinator and the worker what they may have missed.
  void Repeat();

  // Called while the run has no version 0. Lets the worker make the initial parameters, or offers
  // the version 0 that this peer already holds to the coordinator.
  void MakeInitialState();
  void OnOpened();  // Called when the replica was opened.
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

  std::string branch_path_;                   // Empty if there is no branch file.
  std::optional<v1::Genesis> branch_parent_;  // The parent run's genesis, from the branch file.

  v1::RunSpec spec_;
  // True if the coordinator had recorded version 0 at its last Welcome.
  bool genesis_recorded_ = false;
  std::optional<v1::WorkerConfigured> configured_;
  // The reason why the last worker ended; OK if a worker runs or no worker has ended yet. CANCELLED
  // means that the machine's owner ended it.
  absl::Status lost_;
  bool started_ = false;
  bool held_back_ = false;
  bool making_initial_state_ = false;
  CallbackGuard guard_;
};

}  // namespace atolld
