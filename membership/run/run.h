// Run: the coordinator's whole decision making - members, version 0, rounds, evaluations, the seal,
// and what operators ask for.
//
// It takes what happened (a Hello, a message, a broken Session, time) and returns what to do about
// it as a RunOutput. Laws: what an output sends is sent only once its update is durable, and
// outputs take effect in the order in which they were returned; a version is announced only when
// its header is durable; no round closes in the grace after a restart, nor while a longer history
// is adopted from the peers. Pure: no clock, no I/O, one thread. The owner calls OnTick every
// failure_timeout / 4 and at NextWake().
//
// Its state is that of eight machines, each with a file of its own: what is recorded (Ledger), who
// is there (Members), version 0 (Beginning), who trains on what (Training), the attempt at an entry
// (Exchanges) and its masks (MaskedExchanges), evaluations and the seal (Ending), and a store
// behind its peers (Adoption). Run hands an event to those that it concerns, and others' state with
// it where they need that, then lets the phase go on (Advance). All append to the one output of the
// call. What they come to together is RunView's.
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
#include "membership/run/beginning.h"
#include "membership/run/ending.h"
#include "membership/run/exchange_round.h"
#include "membership/run/exchanges.h"
#include "membership/run/ledger.h"
#include "membership/run/masked_exchanges.h"
#include "membership/run/members.h"
#include "membership/run/run_output.h"
#include "membership/run/run_view.h"
#include "membership/run/training.h"
#include "membership/run/workers.h"

namespace atolld {

class Run {
 public:
  // `stored` has a spec, and its epoch is already the new one.
  Run(RunSettings settings, const StoredRun& stored, absl::Time now);
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  RunOutput OnHello(absl::Time now, SessionId session, const v1::Hello& hello);  // comes first
  RunOutput OnMessage(absl::Time now, SessionId session, const v1::PeerMessage& message);
  RunOutput OnBroken(absl::Time now, SessionId session);
  RunOutput OnProbed(absl::Time now, const RunOutput::Probe& probe, ProbeResult result);
  RunOutput OnTick(absl::Time now);
  // These keys, all of them, are refused from now on. Whose Sessions end is the caller's to see to.
  RunOutput OnRevoked(absl::Time now, const std::vector<KeyRecord>& keys);
  absl::Time NextWake(absl::Time now) const;  // later than `now`

  // What an operator asks; see admin.proto. Asked twice it does nothing. NOT_FOUND: no such peer.
  // FAILED_PRECONDITION: too late, or version 0 is not there yet. INVALID_ARGUMENT: the reason.
  absl::StatusOr<RunOutput> OnOrder(absl::Time now, const RunOrder& order);

  // All but rounds, evaluations and events, which a watcher gets piece by piece. `wall`: what the
  // wall clock shows at `now`; what is told of clocks is 0 without it.
  v1::RunStatus Status(absl::Time now, std::optional<absl::Time> wall = std::nullopt) const {
    return view_.Status(now, wall, reason_);
  }
  const Ledger& ledger() const { return ledger_; }
  // In words; empty while it does not wait.
  std::string WaitingFor() const { return view_.WaitingFor(reason_); }
  std::string PhaseText() const { return view_.PhaseText(reason_); }  // in one word
  const std::string& run_id() const { return ledger_.spec().run_id(); }
  bool Evicted(const std::string& peer) const { return members_.Evicted(peer); }
  bool LacksReachablePeer() const { return lacks_reachable_; }  // that is what it waits for
  const std::vector<v1::RoundRecord>& rounds() const { return ledger_.rounds(); }
  const std::vector<v1::EvaluationRecord>& evaluations() const { return ledger_.evaluations(); }
  uint64_t version() const { return ledger_.version(); }

 private:
  // Lets the phase go on as far as it can by now. At the end of each event.
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

  // What operators ask.
  absl::Status Evict(absl::Time now, const std::string& peer, const std::string& reason);
  void EvictLiar(absl::Time now, const std::string& peer, const std::string& evidence) {
    if (members_.EvictLiar(now, peer, evidence, ledger_.seal().has_value(), &out_)) Gone(now, peer);
  }

  // Version 0, and a store that is behind its peers.
  bool GivesVersionZero(absl::Time now);  // somebody does, or may still
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
  void Act(absl::Time now, const ExchangeRound::Outcome& outcome);
  void Follow(absl::Time now, const ExchangeRound::Outcome& outcome);
  void Commit(absl::Time now);
  void GiveUpExchange(absl::Time now);

  const RunSettings settings_;
  Ledger ledger_;
  Members members_;
  Training training_;
  Exchanges exchanges_;
  MaskedExchanges masks_;
  Ending ending_;
  Adoption adoption_;
  Beginning beginning_;
  Workers workers_;               // as some of these know them
  const RunView view_;            // of all of these
  std::string reason_;            // why it waits, where the round does not know
  bool lacks_reachable_ = false;  // ... for a peer that others can dial
  RunOutput out_;                 // of the call that runs
};

}  // namespace atolld
