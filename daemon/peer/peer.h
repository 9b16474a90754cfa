// Peer: one member of a run - a replica, a part in every exchange, a log and snapshots for others,
// and a worker to train. An aggregator has all but the worker.
//
// This class only ties the parts together: CoordinatorLink (the Session), ReplicaKeeper (the
// state), RoundRunner (the round), WorkerLink, WorkerWatch and VirtualParties (the worker),
// RunFiles (what it reads beside its data), RunEnd (from the seal on), Donor (what others fetch),
// OfferedCalls and Giver (how those give that nobody can dial). It begins by listening and
// dialling, follows the coordinator's word, and ends when the run is sealed, when it is drained, or
// when it cannot go on. What the machine's owner allows is decided elsewhere (daemon/machine);
// Allow carries it out. Loop thread.
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
#include "daemon/peer/offered_calls.h"
#include "daemon/peer/peer_roster.h"
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
  // `on_finished` runs once, on the loop, when nothing is left to do: OK after the run's seal or a
  // drain, else the reason.
  Peer(Env env, const Config& config, Worker& trainer, uint32_t pid,
       std::function<void(absl::Status)> on_finished);
  ~Peer();

  // Opens the replica on disk, listens, dials. FAILED_PRECONDITION, DATA_LOSS...: nothing runs
  // then. Blocking.
  absl::Status Start();

  // Ends after the round under way, or after failure_timeout.
  void Drain();

  // Its owner has changed the caps of its line, in bytes a second; 0: none. The coordinator plans
  // with them from the next round on, and what joiners fetch here is at most half of the one up.
  // The caps are the transport's to keep.
  void SetCaps(uint64_t up_cap, uint64_t down_cap);

  // Calls `task` at each Welcome: the coordinator is there.
  void OnWelcomed(Task task) { on_welcomed_ = std::move(task); }

  // What the machine's owner lets it do from now on; after Start. Where it may not train its worker
  // ends at once, others train the samples that it had, and the replica follows the run. An update
  // that is ready stands. Where it may not exchange it leaves its run after the exchange under way,
  // and comes back when it may. An aggregator, which has no worker, leaves as well when it may not
  // train. `why`, one sentence, is shown to all who look at the run.
  void Allow(bool train, bool exchange, const std::string& why);
  // The round under way is the last for now: `done` runs when nothing of this peer is in one. Null:
  // not any more.
  void FinishRound(Task done);
  // From the worker's next start on, which is after the round under way.
  void SetThreads(uint32_t threads);
  // Calls `task` for each entry that has a contribution of this peer, with its tokens.
  void OnContributed(std::function<void(uint64_t tokens)> task) {
    on_contributed_ = std::move(task);
  }
  // Who it is, where it stands and what the run waits for, into the answer for its owner.
  void Tell(v1::MachineStatus* status) const;

  std::string address() const;  // listened on; empty: nowhere, it dials out only
  std::string Doing() const;    // "run books, version 12, training", for whoever asks the service

  // Completes what this peer tells of itself by what it does not know: figures of its machine.
  void OnProgress(std::function<void(v1::PeerProgress*)> complete) {
    complete_ = std::move(complete);
  }
  v1::PeerProgress progress() const;
  // The parties that it imitates; nullptr: it is one itself.
  VirtualParties* parties() { return parties_.get(); }
  std::string run_id() const;  // empty: it has heard of none, and holds none
  bool connected() const { return link_.up(); }
  const std::string& coordinator() const { return link_.address(); }
  uint64_t tokens() const { return runner_.tokens(); }  // trained since the daemon's start

 private:
  std::unique_ptr<VirtualParties> MakeParties(Worker& trainer);
  ReplicaKeeper::Events KeeperEvents();
  RoundRunner::Events RunnerEvents();
  CoordinatorLink::Events LinkEvents();

  absl::Status Listen();
  absl::Status FindBranch();
  void Accept(const std::string& method, std::unique_ptr<Call> call);
  v1::Hello Hello() const;
  // An error: no honest coordinator says it, and nothing has changed.
  absl::Status OnMessage(const v1::CoordinatorMessage& message);
  absl::Status OnWelcome(const v1::Welcome& welcome);
  HeldHistory Held() const;
  absl::Status CheckRun(const v1::RunSpec& spec) const;
  void OnRoster(const v1::Roster& roster);
  absl::Status OnRosterDelta(const v1::RosterDelta& delta);
  void LogChanges(const std::vector<RosterChange>& changes);
  void TakeCalls();   // from and to whom, as roster_ has it by now
  void TakeDonors();  // and who gives what
  void UpdateDonors();
  void UpdateGiver();
  void OnDrain(const std::string& reason);
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
  std::string WaitsFor() const;  // while there is no coordinator
  void Break(const absl::Status& why);
  void Finish(const absl::Status& status, const std::string& farewell);

  RosterDialler dialler_;  // first: all below dial through it
  const Env env_;
  const Config config_;
  const uint32_t pid_;
  const uint64_t instance_;
  const std::function<void(absl::Status)> on_finished_;

  // Loop thread.
  const std::unique_ptr<VirtualParties> parties_;
  WorkerWatch trainer_;
  OfferedCalls offered_;
  ReplicaKeeper keeper_;
  RoundRunner runner_;
  absl::Duration failure_timeout_;  // as configured, then as the run says
  CoordinatorLink link_;
  WorkerLink worker_;
  RunEnd end_;
  RunFiles files_;
  RosterGate gate_;
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<Donor> donor_;
  std::unique_ptr<Giver> giver_;  // of a peer that nobody can dial
  Refusals refusals_;
  std::optional<v1::RunSpec> spec_;
  v1::Roster roster_;
  std::optional<SigningKey> signing_key_;  // of what it contributes
  uint64_t epoch_ = 0;                     // of the last Welcome
  std::string epoch_proof_;                // ... and what shows it
  uint64_t told_version_ = 0;              // newest, by the coordinator since then
  Task on_welcomed_;
  uint64_t up_cap_, down_cap_;  // bytes a second; 0: none
  std::function<void(v1::PeerProgress*)> complete_;
  std::function<void(uint64_t)> on_contributed_;
  std::string held_back_;     // why it may not train; empty: it may
  bool may_exchange_ = true;  // or has left its run, or is about to
  Task round_finished_;       // of FinishRound
  bool restart_worker_ = false;
  bool worker_started_ = false;
  bool draining_ = false;
  bool finishing_ = false;
  CallbackGuard guard_;
};

}  // namespace atolld
