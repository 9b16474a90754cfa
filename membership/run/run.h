// Run: makes all decisions of the coordinator: about members, version 0, rounds, evaluations, the
// seal, and operators' orders.
//
// It takes events (a Hello, a message, a broken Session, the passing of time) and returns a
// RunOutput that says what to do about them. Laws: an output's messages are sent only once its
// update is durable, and outputs take effect in the order in which they were returned. A version is
// announced only when its header is durable. No round closes in the grace after a restart, nor
// while a longer history is adopted from the peers. Pure: it uses neither a clock nor I/O. Used by
// one thread. The owner calls OnTick every failure_timeout / 4 and at NextWake().
//
// Its state is divided among eight machines, each with a file of its own: the record (Ledger), the
// members (Members), the making of version 0 (Beginning), which peer trains on what (Training), the
// attempt at an entry (EntryAttempts) and its masks (MaskedAttempts), evaluations and the seal
// (Ending), and the adoption of a longer history from the peers (Adoption). Run passes an event to
// the machines that it concerns, with the state of other machines if they need it, and then lets
// the phase continue (Advance). All of them append to the one output of the call. RunView combines
// their states. The class Run has more than forty methods because each kind of event and each step
// of a phase has one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "atoll/v1/admin.pb.h"
#include "atoll/v1/membership.pb.h"
#include "membership/run/adoption.h"
#include "membership/run/ballot.h"
#include "membership/run/beginning.h"
#include "membership/run/ending.h"
#include "membership/run/entry_attempts.h"
#include "membership/run/ledger.h"
#include "membership/run/masked_attempts.h"
#include "membership/run/members.h"
#include "membership/run/run_output.h"
#include "membership/run/run_view.h"
#include "membership/run/training.h"
#include "membership/run/workers.h"

namespace atolld {

class Run {
 public:
  // `stored` must have a spec, and its epoch must already be the new one.
  Run(RunSettings settings, const StoredRun& stored, absl::Time now);
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  // Must be the first call for a session.
  RunOutput OnHello(absl::Time now, SessionId session, const v1::Hello& hello);
  RunOutput OnMessage(absl::Time now, SessionId session, const v1::PeerMessage& message);
  RunOutput OnBroken(absl::Time now, SessionId session);
  RunOutput OnProbed(absl::Time now, const RunOutput::Probe& probe, ProbeResult result);
  RunOutput OnTick(absl::Time now);
  // Called with all keys that are refused from now on. The caller must end the Sessions of the
  // peers that use them.
  RunOutput OnRevoked(absl::Time now, const std::vector<KeyRecord>& keys);
  absl::Time NextWake(absl::Time now) const;  // later than `now`

  // Carries out an operator's order; see admin.proto. An order that was carried out before does
  // nothing. Fails with NOT_FOUND if there is no such peer, with FAILED_PRECONDITION if it is too
  // late for the order or version 0 does not exist yet, and with INVALID_ARGUMENT if the reason is
  // not a valid text.
  absl::StatusOr<RunOutput> OnOrder(absl::Time now, const RunOrder& order);

  // Returns the status without rounds, evaluations and events, which a watcher is sent piece by
  // piece. `wall` is the wall clock's time at `now`; if it is missing, the figures about clocks are
  // 0.
  v1::RunStatus Status(absl::Time now, std::optional<absl::Time> wall = std::nullopt) const {
    return view_.Status(now, wall, reason_);
  }
  const Ledger& ledger() const { return ledger_; }
  // Returns in words what the run waits for; empty if it does not wait.
  std::string WaitingFor() const { return view_.WaitingFor(reason_); }
  std::string PhaseText() const { return view_.PhaseText(reason_); }  // returned as one word
  const std::string& run_id() const { return ledger_.spec().run_id(); }
  bool Evicted(const std::string& peer) const { return members_.Evicted(peer); }
  // True if the run waits for a peer that others can dial.
  bool LacksReachablePeer() const { return lacks_reachable_; }
  const std::vector<v1::RoundRecord>& rounds() const { return ledger_.rounds(); }
  const std::vector<v1::EvaluationRecord>& evaluations() const { return ledger_.evaluations(); }
  uint64_t version() const { return ledger_.version(); }

 private:
  // Carries out everything that can be done now in the current phase. Called at the end of each
  // event.
  void Advance(absl::Time now);
  RunOutput Finish(absl::Time now);

  // Members.
  absl::Status Dispatch(absl::Time now, const std::string& peer, const v1::PeerMessage& message);
  void Refuse(absl::Time now, const std::string& peer, const absl::Status& why);
  void Gone(absl::Time now, const std::string& peer);
  void ForgetStale(absl::Time now);
  absl::Status OnSynced(const std::string& peer, const v1::Synced& synced);
  void Probe(const std::string& peer) {
    const std::string& address = members_.roster().Find(peer)->address;
    if (!address.empty()) out_.probes.push_back({peer, address});
  }

  // Operators' orders.
  absl::Status Evict(absl::Time now, const std::string& peer, const std::string& reason);
  void EvictLiar(absl::Time now, const std::string& peer, const std::string& evidence) {
    if (members_.EvictLiar(now, peer, evidence, ledger_.seal().has_value(), &out_)) Gone(now, peer);
  }

  // Version 0, and a store that is behind its peers.
  // Returns true if a peer gives version 0, or may still give it.
  bool GivesVersionZero(absl::Time now);
  absl::Status OnInitialState(const std::string& peer, const v1::InitialState& initial);
  void AcceptGenesis(const v1::Genesis& genesis);
  void OutgrowEpoch(absl::Time now, uint64_t heard);
  void WelcomeAll();
  void AdvanceAdoption(absl::Time now);
  absl::Status OnHeaders(absl::Time now, const std::string& peer, const v1::Headers& headers);
  void EndAdoption();
  void AdoptTraining(absl::Time now, const std::string& peer, HeldTraining held, uint64_t version);

  // From one version to the next.
  void AdvanceTraining(absl::Time now);
  void TrainAhead(absl::Time now);
  void GiveTraining(absl::Time now, const std::vector<std::string>& peers, bool ahead);
  void Evaluate(absl::Time now) {
    ending_.Evaluate(now, view_.LastVersion(), &ledger_, members_, training_.round(), &out_);
  }
  absl::Status OnReady(absl::Time now, const std::string& peer, const v1::Ready& ready);
  void DropUpdate(const std::string& peer, const std::string& why);
  void DropOld(const std::string& peer, const v1::Ready& ready);
  void BeginExchange(absl::Time now);
  void BeginMasked(absl::Time now);
  absl::Status OnMask(absl::Time now, const std::string& peer, const v1::MaskFromParty& message);
  void FollowMasks(absl::Time now, MaskedSums::News news);
  void OnExchangeDeadline(absl::Time now);
  absl::Status OnVote(absl::Time now, const std::string& peer, const v1::Vote& vote);
  void OnUpdateRefused(absl::Time now, const std::string& peer, const v1::UpdateRefused& refused);
  void OnAuditReport(absl::Time now, const std::string& peer, const v1::AuditReport& report);
  void LoseFromExchange(absl::Time now, const std::string& peer);
  void LoseMasks(absl::Time now, const std::string& peer) {
    FollowMasks(now, masks_.OnGone(now, peer, members_, &out_));
  }
  void Act(absl::Time now, const Ballot::Outcome& outcome);
  void Follow(absl::Time now, const Ballot::Outcome& outcome);
  void Commit(absl::Time now);
  void GiveUpExchange(absl::Time now);

  const RunSettings settings_;
  Ledger ledger_;
  Members members_;
  Training training_;
  EntryAttempts exchanges_;
  MaskedAttempts masks_;
  Ending ending_;
  Adoption adoption_;
  Beginning beginning_;
  Workers workers_;     // works on some of these machines
  const RunView view_;  // a view of all these machines
  // Why the run waits, if the reason is not one that Round::reason() gives.
  std::string reason_;
  // True if the run waits for a peer that others can dial.
  bool lacks_reachable_ = false;
  RunOutput out_;  // the output of the current call
};

}  // namespace atolld
