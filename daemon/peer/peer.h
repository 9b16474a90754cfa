// Peer: one member of a run. It holds a replica, takes part in every exchange, keeps a log and
// snapshots for others, and has a worker to train. An aggregator has everything except the worker.
//
// This class only ties the parts together: CoordinatorLink (the Session), ReplicaKeeper (the
// state), RoundRunner (the round), WorkerLink, WorkerWatch and VirtualParties (the worker),
// RunFiles (the files that the worker reads beside its data), RunEnd (from the seal on), Donor
// (what others fetch), OfferedCalls and Giver (giving by peers that cannot be dialled), ReachWatch
// (the members that it cannot reach). It begins by listening and dialling, follows the
// coordinator's messages, and ends when the run is sealed, when it is drained, or when it cannot
// continue. The code in daemon/machine decides what the machine's owner allows, and Allow carries
// that out. The class has more than twenty members because it owns an object for each of these
// parts, and more than forty methods because each message of the coordinator, each event of a part
// and each order of the owner is handled by this class. Used on the loop thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "atoll/v1/machine.pb.h"
#include "atoll/v1/membership.pb.h"
#include "daemon/config/config.h"
#include "daemon/env/env.h"
#include "daemon/exchange/started_call.h"
#include "daemon/peer/coordinator_link.h"
#include "daemon/peer/life_count.h"
#include "daemon/peer/offered_calls.h"
#include "daemon/peer/peer_roster.h"
#include "daemon/peer/reach_watch.h"
#include "daemon/peer/replica_keeper.h"
#include "daemon/peer/round_runner.h"
#include "daemon/peer/run_end.h"
#include "daemon/peer/run_files.h"
#include "daemon/peer/virtual_parties.h"
#include "daemon/peer/worker.h"
#include "daemon/peer/worker_link.h"
#include "daemon/peer/worker_watch.h"
#include "daemon/replica/transfer/transfer.h"
#include "membership/history/signing_key.h"

namespace atolld {

class Peer {
 public:
  // `on_finished` is called once, on the loop, when this peer has nothing left to do. The status is
  // OK after the run's seal or a drain; otherwise it says why the peer ended.
  Peer(Env env, const Config& config, Worker& trainer, uint32_t pid,
       std::function<void(absl::Status)> on_finished);
  ~Peer();

  // Opens the replica on disk, listens and dials. If it fails (FAILED_PRECONDITION, DATA_LOSS,
  // ...), the peer has not started. This call blocks.
  absl::Status Start();

  // Lets this peer end after the round under way, or after failure_timeout if that round takes
  // longer.
  void Drain();

  // Called when the machine's owner has changed the caps of its line, in bytes a second; 0 means no
  // cap. The coordinator uses them in its plans from the next round on, and joiners fetch from this
  // peer at no more than half of `up_cap`. The transport enforces the caps.
  void SetCaps(uint64_t up_cap, uint64_t down_cap);

  // Calls `task` at each Welcome, when the coordinator is connected.
  void OnWelcomed(Task task) { on_welcomed_ = std::move(task); }

  // Sets what the machine's owner lets this peer do from now on; called after Start. If the peer
  // may not train, its worker ends at once, other peers train its samples, and the replica follows
  // the run. An update that is ready is kept. If the peer may not exchange, it leaves its run after
  // the exchange under way, and returns when it may exchange again. An aggregator, which has no
  // worker, also leaves when it may not train. `why` is one sentence that is shown to all viewers
  // of the run.
  void Allow(bool train, bool exchange, const std::string& why);
  // Makes the round under way the last one for now, and calls `done` when this peer takes part in
  // no round. A null `done` cancels this request.
  void FinishRound(Task done);
  // Sets the worker's number of threads. It takes effect when the worker is started again, which
  // happens after the round under way.
  void SetThreads(uint32_t threads);
  // Calls `task` for each entry that includes a contribution of this peer, with the number of
  // tokens in that contribution.
  void OnContributed(std::function<void(uint64_t tokens)> task) {
    on_contributed_ = std::move(task);
  }
  // Fills in this peer's name, its state and what its run waits for, for the machine's owner.
  void Tell(v1::MachineStatus* status) const;

  // The address on which this peer listens; empty if it only dials out.
  std::string address() const;
  // A line such as "run books, version 12, training", for the service manager.
  std::string Doing() const;

  // Sets a function that adds figures of the machine, which this class does not know, to each
  // report of the peer's progress.
  void OnProgress(std::function<void(v1::PeerProgress*)> complete) {
    complete_ = std::move(complete);
  }
  v1::PeerProgress progress() const;
  // The virtual parties that this peer hosts; nullptr if it is a single party.
  VirtualParties* parties() { return parties_.get(); }
  // The id of its run; empty if it holds no run and the coordinator has not named one yet.
  std::string run_id() const;
  bool connected() const { return link_.up(); }
  const std::string& coordinator() const { return link_.address(); }
  // The tokens trained since the daemon was started.
  uint64_t tokens() const { return runner_.tokens(); }

 private:
  std::unique_ptr<VirtualParties> MakeParties(Worker& trainer);
  ReplicaKeeper::Events KeeperEvents();
  RoundRunner::Events RunnerEvents();
  CoordinatorLink::Events LinkEvents();
  WorkerLink::Events WorkerEvents();
  RunEnd::Events EndEvents();

  absl::Status Listen();
  absl::Status FindBranch();
  void Accept(const std::string& method, std::unique_ptr<Call> call);
  v1::Hello Hello() const;
  // Fails without changing anything if no honest coordinator would send the message.
  absl::Status OnMessage(const v1::CoordinatorMessage& message);
  absl::Status OnWelcome(const v1::Welcome& welcome);
  HeldHistory Held() const;
  absl::Status CheckRun(const v1::RunSpec& spec) const;
  void OnRoster(const v1::Roster& roster);
  absl::Status OnRosterDelta(const v1::RosterDelta& delta);
  void LogChanges(const std::vector<RosterChange>& changes);
  void TakeCalls();   // Allows calls from and to the members of roster_.
  void TakeDonors();  // Takes the donors and their offers from roster_.
  void UpdateDonors();
  void UpdateGiver();
  void LogReach(bool reachable);
  void OnDrain(const std::string& reason);
  void OnOtherLife(const v1::OtherLife& other);
  void OnSendHeaders(const v1::SendHeaders& asked);
  void OnCheckState(const v1::CheckState& asked);
  void OnDigest(uint64_t version, const Digest& state);
  void StartWorker();
  void LeaveFor(absl::Time latest);
  void Return();
  void UpdateRest();
  void RestartWorker();
  void NoteCommitted(const v1::EntryHeader& header);
  void SendSynced();
  void SendStateReport(uint64_t version, const Digest& state, const Digest* expected);
  void StartDonor(const std::string& run_id);
  uint64_t DonateRate() const;
  v1::LineCaps Rates() const;
  void OnBusy(bool busy);
  // Returns what the peer waits for while no coordinator is connected.
  std::string WaitsFor() const;
  void Break(const absl::Status& why);
  void Finish(const absl::Status& status, const std::string& farewell);

  RosterDialler dialler_;  // Must be the first member, because all members below dial through it.
  const Env env_;
  const Config config_;
  const uint32_t pid_;
  const uint64_t instance_;
  const std::function<void(absl::Status)> on_finished_;

  // Used on the loop thread.
  const std::unique_ptr<VirtualParties> parties_;
  WorkerWatch worker_watch_;
  OfferedCalls offered_;
  ReplicaKeeper keeper_;
  ReachWatch reach_;
  RoundRunner runner_;
  absl::Duration failure_timeout_;  // The configured value, until the run's Welcome gives its own.
  LifeCount lives_;
  CoordinatorLink link_;
  WorkerLink worker_link_;
  RunEnd end_;
  RunFiles files_;
  RosterGate gate_;
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<Donor> donor_;
  std::unique_ptr<Giver> giver_;  // Null unless this peer cannot be dialled.
  Refusals refusals_;
  std::optional<v1::RunSpec> spec_;
  v1::Roster roster_;
  std::optional<SigningKey> signing_key_;  // The key that signs this peer's contributions.
  uint64_t epoch_ = 0;                     // The epoch of the last Welcome.
  std::string epoch_proof_;                // The proof of epoch_.
  // The newest version that the coordinator has reported in this Session.
  uint64_t told_version_ = 0;
  Task on_welcomed_;
  uint64_t up_cap_, down_cap_;  // The caps in bytes a second; 0 if there is no cap.
  std::function<void(v1::PeerProgress*)> complete_;
  std::function<void(uint64_t)> on_contributed_;
  std::string held_back_;     // The reason why this peer may not train; empty if it may.
  bool unreachable_ = false;  // True if the roster says that other peers cannot dial this peer.
  bool may_exchange_ = true;  // If false, this peer has left its run or is about to leave it.
  Task round_finished_;       // The `done` of FinishRound.
  bool restart_worker_ = false;
  bool worker_started_ = false;
  bool draining_ = false;
  bool finishing_ = false;
  CallbackGuard guard_;
};

}  // namespace atolld
