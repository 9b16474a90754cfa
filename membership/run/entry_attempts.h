// The exchanges of a run: ExchangePlanner plans each of them, and EntryAttempts prepares and runs
// the current one and applies its results.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "atoll/v1/admin.pb.h"
#include "atoll/v1/membership.pb.h"
#include "atoll/v1/run.pb.h"
#include "membership/planning/link_estimates.h"
#include "membership/planning/link_status.h"
#include "membership/planning/plan_choice.h"
#include "membership/planning/reach.h"
#include "membership/planning/reduction_plan.h"
#include "membership/planning/slow_lines.h"
#include "membership/run/ballot.h"
#include "membership/run/gradient_noise.h"
#include "membership/run/leases.h"
#include "membership/run/ledger.h"
#include "membership/run/members.h"
#include "membership/run/pace.h"
#include "membership/run/roster.h"
#include "membership/run/run_experts.h"
#include "membership/run/run_output.h"
#include "membership/run/training.h"
#include "membership/trust/contribution.h"
#include "membership/trust/update_judge.h"

namespace atolld {

// ExchangePlanner: plans each exchange of a run, and learns from past exchanges.
//
// It keeps the estimates of the network and the last chosen plan. It learns only from an exchange
// that ended with its first plan and from which all contributors have sent a complete log of
// arrivals. Pure. Used by one thread.
class ExchangePlanner {
 public:
  explicit ExchangePlanner(PlanKind kind) : choice_(kind) {}

  // Sets the contributors' bandwidths and whether regions average first; sets nothing if
  // aggregators reduce. The contributors must be members of the roster. `size` is the greatest
  // possible size of the encoded vector. Returns what has changed in the plan and why, which is
  // usually an empty string.
  std::string Plan(const Roster& roster, const EncodedSize& size, ExchangeTerms* terms,
                   std::vector<ExchangeContributor>* contributors);
  const ChosenPlan& chosen() const { return chosen_; }  // the result of the last Plan
  // The peers that have slow lines according to the last Plan, and the changes that it made.
  const SlowLines& slow_lines() const { return slow_lines_; }
  std::vector<SlowLines::Change> TakeSlowChanges() { return std::exchange(slow_changes_, {}); }

  // Called when a vote arrives, `since_plan` after the exchange's plan was made.
  void NoteVote(const Ballot& exchange, const std::string& peer, const v1::Vote& vote,
                absl::Duration since_plan);
  // Called when the exchange that was planned last is decided.
  void NoteEnd(const Roster& roster, const Ballot& exchange, absl::Duration time);
  void Forget(const std::string& peer) { estimates_.Forget(peer); }

  const LinkEstimates& estimates() const { return estimates_; }
  // The links between regions, each with the rate that the newest plan assumed and the rate that
  // the newest exchange reached.
  const std::vector<v1::LinkStatus>& links() const { return links_; }

 private:
  LinkEstimates estimates_;
  std::vector<v1::LinkStatus> counted_on_, links_;
  SlowLines slow_lines_;
  std::vector<SlowLines::Change> slow_changes_;
  PlanChoice choice_;
  ChosenPlan chosen_;
  double vector_bytes_ = 0;  // the bytes of the vector's larger form
  uint32_t chunks_ = 1;
};

// EntryAttempts: keeps the current attempt at an entry, the attempt that was committed last, and
// what the run has learned from all attempts: times, lines, peers whose updates were refused, and
// the noise scale.
//
// Every attempt has this order:
//
//   Choose, Begin --> votes and reports go to current(); SendPlans or NoteAudit after each verdict
//   that asks for it, then SendAudits --> Decide, then NoteCommit; or GiveUp
//
// After Decide the attempt is no longer current(), so nothing can change it; only evidence about it
// is still accepted (see last()). If the header that Decide made is not valid, GiveUp follows. The
// caller applies the verdicts to the state of other objects. The class has more than twenty members
// because it keeps the current attempt and also what it has learned from earlier attempts, from
// which it plans the next one. Pure. Used by one thread.
class EntryAttempts {
 public:
  // The peers whose updates may take part in an exchange now, with the updates' scales; and the
  // peers whose updates are too long to be used at any scale.
  struct Candidates {
    // If there are fewer than the quorum, or than a masked sum needs, no attempt begins yet.
    std::vector<ExchangeContributor> contributors;
    std::vector<std::string> outsized;
  };

  // `settings` must outlive this object. `ledger` and `judged` have the content that was loaded
  // from the store.
  EntryAttempts(const RunSettings& settings, const Ledger& ledger, const JudgeRecord& judged);

  // The current attempt, or nullptr if there is none.
  Ballot* current() { return current_.get(); }
  const Ballot* current() const { return current_.get(); }
  // The attempt that was committed last, or nullptr if there is none.
  Ballot* last() { return last_.get(); }
  bool under_way() const { return current_ != nullptr; }
  // The time until which the attempt waits for votes or for its audit.
  absl::Time deadline() const { return deadline_; }
  UpdateJudge& judge() { return judge_; }
  const UpdateJudge& judge() const { return judge_; }
  const LinkEstimates& estimates() const { return planner_.estimates(); }
  // Sets the parts of the status that describe the peer's lines and its updates.
  void Show(const std::string& peer, v1::PeerStatus* status) const;
  // Sets the parts of the status that describe the links between regions and the gradient noise.
  void Show(v1::RunStatus* status) const;
  // Sets the codec in which the peer must send what it trains now, and the experts that it owns.
  void Tell(const Ledger& ledger, const Round& round, const Roster& roster, const std::string& peer,
            v1::Train* train);

  // Fails with FAILED_PRECONDITION if no peer can reduce for these contributors; the message gives
  // the reason. In a run with masks, aggregators do not reduce.
  absl::Status Reducible(absl::Time now, const std::vector<ExchangeContributor>& contributors,
                         const Round& round, const Ledger& ledger, Members* members) const;
  // Returns the peers that the round need not wait for if there are enough others: peers whose
  // updates were refused or too long again and again, and peers that report many others as
  // unreachable that no other peer reports.
  std::vector<std::string> NotAwaited(const Members& members) const;
  // Chooses the contributors of the next attempt. If `all` is true, it leaves out no contributor
  // that cannot reach others, because the masks of all of them are already in one sum.
  Candidates Choose(absl::Time now, const v1::RunSpec& spec, const Round& round, Members* members,
                    bool all = false);
  // Begins the attempt with these contributors, of which there must be at least a quorum, and sends
  // the plan. Fails with FAILED_PRECONDITION if no peer can reduce (see Reducible).
  absl::Status Begin(absl::Time now, std::vector<ExchangeContributor> contributors,
                     const Round& round, const Ledger& ledger, Members* members, RunOutput* out);
  // Called when current()->plan() has changed: sends it to all voters.
  void SendPlans(absl::Time now, const Members& members, RunOutput* out);
  // Called when votes can arrive only from now on. Restarts the attempt's deadline.
  void Postpone(absl::Time now);
  // Called when the attempt is agreed on and its audit begins or begins anew. Sets the audit's
  // deadline.
  void NoteAudit(absl::Time now);
  // Sends each auditor the orders that it has not been sent yet.
  void SendAudits(const Members& members, RunOutput* out);
  // Called when a peer came back. Sends it again what it must do in current(), if anything.
  void Resend(const std::string& peer, const Members& members, RunOutput* out);
  // Called when `from` reports that `to` answers its dials. This ends its complaint about it,
  // unless it alone complains: then neither of the two reduces for a while, so that nobody gains
  // anything by a complaint.
  void NoteAnswers(const std::string& from, const std::string& to) {
    const auto complaints = complaints_.find(to);
    if (complaints == complaints_.end() || complaints->second.size() < 2) return;
    complaints->second.erase(from);
  }
  void NoteVote(absl::Time now, const std::string& peer, const v1::Vote& vote);

  // Returns the unsigned header of the entry that was agreed on. `leases` is the lease book before
  // this entry, and `run_parties` is Members::Parties.
  v1::EntryHeader Decide(const Ledger& ledger, const LeaseBook& leases, uint64_t run_parties);
  // Called when the header that Decide made is committed. Returns the record of the round.
  v1::RoundRecord NoteCommit(absl::Time now, const v1::EntryHeader& header, const Ledger& ledger,
                             Members* members, RunOutput* out);
  // Called when it is known that an update to the current attempt cannot be averaged.
  void NoteRefused(const v1::UpdateRefused& refused, RunOutput* out);
  // Checks an update that a peer offers. Fails with the error of UpdateJudge::Check or
  // RunExperts::Check, or with INVALID_ARGUMENT if the update was refused in an attempt at this
  // entry.
  absl::Status CheckReady(const Ledger& ledger, const std::string& peer, const v1::Ready& ready);
  // Gives up the attempt and returns its contributors. If the attempt is still the current one,
  // this also informs the peers whose replicas may have drifted, because no next header will show
  // it to them.
  std::vector<std::string> GiveUp(absl::Time now, uint64_t committed, Members* members,
                                  RunOutput* out);
  void Forget(const std::string& peer);

 private:
  v1::RoundRecord RecordRound(absl::Time now, const v1::EntryHeader& header,
                              const Ledger& ledger) const;
  void SendPlan(const std::string& peer, const Members& members, RunOutput* out);
  void SendAudit(const std::string& peer, const v1::Audit& order, const Members& members,
                 RunOutput* out);
  void SendWhole(const std::string& peer, const Members& members, RunOutput* out);
  void SendDoubts(uint64_t committed, const Members& members, RunOutput* out) const;
  bool IsKnown(const std::string& accuser, const std::string& accused) const;
  void NoteComplaints(uint64_t version, const Ballot& exchange, Members* members);
  std::map<std::string, std::set<std::string>> Doubts(uint64_t version,
                                                      const Members& members) const;
  Around AroundDoubts(absl::Time now, const Round& round, const Members& members,
                      absl::Span<const ExchangeAggregator> aggregators,
                      absl::Span<const ExchangeContributor> contributors, bool all) const;
  void LeaveOut(absl::Time now, const Round& round, Members* members,
                std::vector<ExchangeContributor>* contributors) const;
  void SpareInDoubt(absl::Time now, const Round& round, const Members& members,
                    std::vector<ExchangeAggregator>* aggregators,
                    std::vector<ExchangeContributor>* contributors) const;

  const RunSettings& settings_;
  std::unique_ptr<Ballot> current_, last_;
  // False in a run with masks: its voters take the masks off, so they need the whole plan with all
  // parties of the sum.
  const bool brief_plans_;
  // current_->plan() as it is sent; null if it has not been sent yet
  RunOutput::Message whole_;
  // The brief plans made from current_->plan(); nullopt if none was sent.
  std::optional<BriefPlans> told_;
  // The updates in current_ or, between Decide and NoteCommit, in last_.
  std::map<std::string, v1::Ready> contributions_;
  // The peers for which the log already says that their update has length 0.
  std::set<std::string> still_;
  absl::Time began_, agreed_at_ = absl::InfiniteFuture(), deadline_ = agreed_at_;
  RecentTimes times_;
  uint64_t given_up_ = 0;  // the attempts given up since the last commit
  // The recent attempts that ended without the votes of a quorum: for each, the peer that reduced
  // alone, or "".
  std::vector<std::string> silent_;
  // The time until which the attempts in silent_ count even if an entry is committed.
  absl::Time silent_until_ = absl::InfinitePast();
  // The complaints about results: for each accused peer and each accuser, the last version for
  // which the complaint counts.
  std::map<std::string, std::map<std::string, uint64_t>> complaints_;
  std::map<std::string, std::set<std::string>> known_doubts_;  // the doubts when current_ began
  // The root of each peer's update that cannot be averaged.
  std::map<std::string, std::string> refused_;
  ExchangePlanner planner_;
  UpdateJudge judge_;
  RunExperts experts_;
  GradientNoise noise_;
};

}  // namespace atolld
