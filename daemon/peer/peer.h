// Peer: one member of a run - a replica, a part in every exchange, a log and snapshots for others,
// and a worker to train. An aggregator has all but the worker.
//
// This class only ties the parts together: CoordinatorLink (the Session), ReplicaKeeper (the
// state), RoundRunner (the round), Donor (what others fetch), OfferedCalls and Giver (how those
// give that nobody can dial) and the Worker. It begins by listening and dialling, follows the
// coordinator's word, and ends when the run is sealed, when it is drained, or when it cannot go on.
// Loop thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "atoll/v1/membership.pb.h"
#include "atoll/v1/worker.pb.h"
#include "daemon/config/config.h"
#include "daemon/env/env.h"
#include "daemon/exchange/started_call.h"
#include "daemon/peer/coordinator_check.h"
#include "daemon/peer/coordinator_link.h"
#include "daemon/peer/giver.h"
#include "daemon/peer/offered_calls.h"
#include "daemon/peer/replica_keeper.h"
#include "daemon/peer/roster_dialler.h"
#include "daemon/peer/roster_gate.h"
#include "daemon/peer/round_runner.h"
#include "daemon/peer/worker.h"
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

  // Calls `task` at each Welcome: the coordinator is there.
  void OnWelcomed(Task task) { on_welcomed_ = std::move(task); }

  std::string address() const;  // listened on; empty: nowhere, it dials out only

 private:
  absl::Status Listen();
  void Accept(const std::string& method, std::unique_ptr<Call> call);
  v1::Hello Hello() const;
  // An error: no honest coordinator says it, and nothing has changed.
  absl::Status OnMessage(const v1::CoordinatorMessage& message);
  absl::Status OnWelcome(const v1::Welcome& welcome);
  HeldHistory Held() const;
  absl::Status CheckRun(const v1::RunSpec& spec) const;
  void OnRoster(const v1::Roster& roster);
  void UpdateDonors();
  void UpdateGiver();
  void MakeInitialState();
  void OnDrain(const std::string& reason);
  void OnSendHeaders(const v1::SendHeaders& asked);
  void OnCheckState(const v1::CheckState& asked);
  void OnWorkerConfigured(const v1::WorkerConfigured& configured);
  void OnWorkerMessage(const v1::WorkerMessage& message);
  void OnWorkerLost(const absl::Status& why);
  void OnOpened();
  void OnDigest(uint64_t version, const Digest& state);
  std::string MisfitOf(const v1::WorkerConfigured& worker) const;
  void TellOfWorker();
  void SendWorkerReady();
  void SendWorkerLost(const absl::Status& why);
  void SendSynced();
  void SendInitialState();
  void SendStateReport(uint64_t version, const Digest& state, const Digest* expected);
  void StartDonor(const std::string& run_id);
  void OnBusy(bool busy);
  void Finish(const absl::Status& status, const std::string& farewell);

  // peer_end.cc: after the seal
  absl::Status OnSealed(const v1::Seal& seal);
  void WatchEnd();
  void CheckSealed();
  void MendSealed(const Digest& state);
  void CheckFarewell();
  void CheckStranded();
  std::string WaitsFor() const;  // while there is no coordinator

  RosterDialler dialler_;  // first: all below dial through it
  const Env env_;
  const Config config_;
  const uint32_t pid_;
  const uint64_t instance_;
  const std::function<void(absl::Status)> on_finished_;

  // Loop thread.
  Worker& trainer_;
  OfferedCalls offered_;
  ReplicaKeeper keeper_;
  RoundRunner runner_;
  absl::Duration failure_timeout_;  // as configured, then as the run says
  CoordinatorLink link_;
  RosterGate gate_;
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<Donor> donor_;
  std::unique_ptr<Giver> giver_;  // of a peer that nobody can dial
  Refusals refusals_;
  std::optional<v1::RunSpec> spec_;
  std::optional<v1::WorkerConfigured> worker_;
  v1::Roster roster_;
  v1::EntryHeader newest_header_;  // of the last Welcome
  std::optional<v1::Seal> seal_;
  absl::Time sealed_told_;     // in this Session
  bool roster_told_ = false;   // after it: who is waited for is known
  bool sealing_ = false;       // the seal is on its way to the disk, or there
  bool seal_written_ = false;  // it is durable
  bool mending_seal_ = false;
  std::optional<SigningKey> signing_key_;  // of what it contributes
  std::string told_awaited_;               // in the log
  absl::Time coordinator_lost_ = absl::InfinitePast();
  bool making_initial_state_ = false;
  bool genesis_recorded_ = false;  // by the coordinator, at its last Welcome
  uint64_t epoch_ = 0;             // of the last Welcome
  Task on_welcomed_;
  bool draining_ = false;
  bool finishing_ = false;
  CallbackGuard guard_;
};

}  // namespace atolld
