// Run: the coordinator's whole decision making - members, version 0, rounds, evaluations, the seal,
// and what operators ask for.
//
// It takes what happened (a Hello, a message, a broken Session, time) and returns what to do about
// it as a RunOutput. Laws: what an output sends is sent only once its update is durable, and
// outputs take effect in the order in which they were returned; a version is announced only when
// its header is durable; no round closes in the grace after a restart, nor while a longer history
// is adopted from the peers. Pure: no clock, no I/O, one thread. The owner calls OnTick every
// failure_timeout / 4 and at NextWake().
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "atoll/v1/admin.pb.h"
#include "membership/run/adoption.h"
#include "membership/run/evaluation.h"
#include "membership/run/exchange_planner.h"
#include "membership/run/exchange_round.h"
#include "membership/run/gradient_noise.h"
#include "membership/run/leases.h"
#include "membership/run/peer_info.h"
#include "membership/run/record.h"
#include "membership/run/roster.h"
#include "membership/run/round.h"
#include "membership/run/run_output.h"
#include "membership/trust/update_judge.h"

namespace atolld {

class Run {
 public:
  // `stored` has a spec, and its epoch is already the new one.
  Run(RunSettings settings, const StoredRun& stored, absl::Time now);
  ~Run();

  RunOutput OnHello(absl::Time now, SessionId session, const v1::Hello& hello);  // comes first
  RunOutput OnMessage(absl::Time now, SessionId session, const v1::PeerMessage& message);
  RunOutput OnBroken(absl::Time now, SessionId session);
  RunOutput OnRefused(absl::Time now, const std::string& peer);
  RunOutput OnTick(absl::Time now);
  absl::Time NextWake() const;

  // What an operator asks; see admin.proto. Asked twice it does nothing. NOT_FOUND: no such peer.
  // FAILED_PRECONDITION: too late, or version 0 is not there yet. INVALID_ARGUMENT: the reason.
  absl::StatusOr<RunOutput> OnOrder(absl::Time now, const RunOrder& order);

  // All but rounds, evaluations and events, which a watcher gets piece by piece.
  v1::RunStatus Status(absl::Time now) const;
  std::string WaitingFor() const;  // in words; empty while it does not wait
  bool Evicted(const std::string& peer) const;
  bool LacksReachablePeer() const { return lacks_reachable_; }  // that is what it waits for
  const std::vector<v1::RoundRecord>& rounds() const { return rounds_; }
  const std::vector<v1::EvaluationRecord>& evaluations() const { return evaluations_; }
  uint64_t version() const { return digests_.empty() ? 0 : digests_.size() - 1; }

 private:
  // run.cc: sessions and members
  absl::Status Admit(const v1::Hello& hello) const;
  std::string PeerOf(SessionId session) const;  // "" if it is no member's current one
  absl::Status Dispatch(absl::Time now, const std::string& peer, const v1::PeerMessage& message);
  void Refuse(absl::Time now, const std::string& peer, const absl::Status& why);
  void Gone(absl::Time now, const std::string& peer);
  void ForgetStale(absl::Time now);
  void BeginEpoch(absl::Time now);
  v1::CoordinatorMessage Welcome() const;
  void SendTo(const std::string& peer, v1::CoordinatorMessage message);
  void SendToAll(const v1::CoordinatorMessage& message);
  void Say(const std::string& line, RunOutput::Severity severity = RunOutput::Severity::kInfo);
  void SendRosterIfChanged();
  RunOutput Finish(absl::Time now);

  // run_messages.cc: what peers say
  absl::Status OnWorkerReady(const std::string& peer, const v1::WorkerReady& worker);
  void OnWorkerLost(const std::string& peer, const v1::WorkerLost& lost);
  bool Fits(const std::string& peer, const v1::Genesis& genesis);
  void LoseWorker(const std::string& peer);
  absl::Status OnInitialState(const std::string& peer, const v1::InitialState& initial);
  absl::Status OnSynced(const std::string& peer, const v1::Synced& synced);
  absl::Status OnReady(absl::Time now, const std::string& peer, const v1::Ready& ready);
  absl::Status OnVote(absl::Time now, const std::string& peer, const v1::Vote& vote);
  absl::Status OnStateReport(const std::string& peer, const v1::StateReport& report);
  void OnEvaluated(const v1::Evaluated& evaluated);
  void NoteState(const std::string& peer, uint64_t version, const std::string& digest);
  absl::Status CheckChain(uint64_t version, const std::string& digest) const;

  // run_orders.cc: what operators ask
  absl::Status Pause(const std::string& reason);
  absl::Status Resume();
  absl::Status Stop(const std::string& reason);
  absl::Status Drain(const std::string& peer, const std::string& reason);
  absl::Status Evict(absl::Time now, const std::string& peer, const std::string& reason);
  void EvictLiar(absl::Time now, const std::string& peer, const std::string& evidence);
  absl::Status Readmit(absl::Time now, const std::string& peer);
  void SendDrain(const std::string& peer);
  void NoteQuorum(const std::string& said);

  // run_adoption.cc: a store that is behind its peers
  bool Ahead(uint64_t version) const;  // beyond what is known here
  absl::Status MayAdopt(uint64_t version, const std::string& digest) const;
  void OutgrowEpoch(absl::Time now, uint64_t heard);
  bool AdvanceAdoption(absl::Time now);
  absl::Status OnHeaders(absl::Time now, const std::string& peer, const v1::Headers& headers);
  void AdoptHeader(const v1::EntryHeader& header);
  void AcceptGenesis(const v1::Genesis& genesis);
  void SettleClaims(absl::Time now);
  void ReachSamples(const std::vector<v1::SampleRange>& samples);
  void EndAdoption();
  void AdoptSamples(absl::Time now, const std::string& peer,
                    const std::vector<v1::SampleRange>& samples);
  void LoseFromExchange(absl::Time now, const std::string& peer);

  // run_rounds.cc: from one version to the next
  void Advance(absl::Time now);
  void AskForGenesis(absl::Time now);
  uint32_t StepsOf(const std::string& peer) const;
  void Train(absl::Time now, const std::string& peer);
  void BeginExchange(absl::Time now);
  bool MayCommitAlone(const std::string& peer) const;
  std::vector<ExchangeAggregator> Aggregators(absl::Time now, std::string* lacking);
  void SendPlan(const std::string& peer);
  void SendAudit(const std::string& peer, const v1::Audit& order);
  void Act(absl::Time now, const ExchangeRound::Outcome& outcome);
  void Follow(absl::Time now, const ExchangeRound::Outcome& outcome);
  void Commit(absl::Time now);
  std::vector<std::string> Settle(const v1::EntryHeader& header, const v1::Plan& plan);
  v1::RoundRecord RecordRound(absl::Time now, const v1::EntryHeader& header) const;
  void SendDoubts();
  void GiveUpExchange(absl::Time now);

  // run_judge.cc: which updates make an exchange, and who is left out
  void LeaveOutOffenders();
  void DropUpdate(const std::string& peer, const std::string& why);
  void OnUpdateRefused(absl::Time now, const std::string& peer, const v1::UpdateRefused& refused);
  void OnAuditReport(absl::Time now, const std::string& peer, const v1::AuditReport& report);
  void SayOffences(const std::vector<std::string>& lines);
  std::vector<ExchangeContributor> Contributors(absl::Time now);

  // run_end.cc: evaluations, the seal
  uint64_t LastVersion() const;  // the one that is sealed, as far as is known now
  bool Evaluated(uint64_t version) const;
  void Evaluate(absl::Time now);
  std::vector<std::string> Evaluators() const;
  void AdvanceEnd(absl::Time now);
  void SealRun(absl::Time now);
  void AdvanceSealed(absl::Time now);
  std::vector<std::string> Awaited() const;  // who does not hold the sealed state yet

  // run_status.cc: how the run looks
  std::string Phase() const;
  std::string PausedReason() const;
  v1::PeerStatus StatusOf(const v1::Member& member) const;
  v1::DataStatus Data() const;
  double Elapsed(absl::Time now) const;

  const RunSettings settings_;
  v1::RunSpec spec_;
  uint64_t epoch_;
  absl::Time epoch_began_;
  RunControl control_;
  std::optional<v1::Genesis> genesis_;
  std::vector<std::string> digests_;  // of genesis and headers, by version; empty: no version 0
  std::optional<v1::EntryHeader> header_;
  std::optional<v1::Seal> seal_;
  std::vector<v1::RoundRecord> rounds_;
  std::vector<v1::EvaluationRecord> evaluations_;
  Roster roster_;
  LeaseBook leases_;
  Round round_;
  Adoption adoption_;
  uint64_t recovered_;    // version that was loaded or adopted; later ones this process committed
  bool adopted_ = false;  // something, which the peers have not been told
  bool behind_ = false;   // the lease book was: peers may hold samples that it does not know of
  std::map<std::string, PeerInfo> peers_;
  std::string genesis_maker_, reason_;  // why it waits, where the round does not know
  std::unique_ptr<ExchangeRound> exchange_, last_exchange_;  // that goes on; the last committed
  std::map<std::string, v1::Ready> contributions_;           // to exchange_
  absl::Time exchange_began_, agreed_at_ = absl::InfiniteFuture(), revision_ends_ = agreed_at_;
  RecentTimes exchange_times_;
  uint64_t given_up_ = 0;  // exchanges since the last commit
  ExchangePlanner planner_;
  UpdateJudge judge_;
  GradientNoise noise_;
  std::optional<Evaluation> evaluation_;
  absl::Time last_reached_ = absl::InfiniteFuture();  // the last version, in this epoch
  absl::Time sealed_at_ = absl::InfiniteFuture();
  bool seen_since_seal_ = false, finished_ = false;
  std::optional<absl::Time> first_train_;  // of this epoch
  double earlier_seconds_ = 0;             // of the run, before this epoch
  RunOutput out_;                          // of the call that runs
  bool roster_changed_ = false, leases_changed_ = false, lacks_reachable_ = false;
};

}  // namespace atolld
